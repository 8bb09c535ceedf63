"""Tests of the fake driver and of the harness."""
