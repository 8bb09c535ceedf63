"""Tests of what runs engines."""
