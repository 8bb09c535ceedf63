"""Tests of the C++ declarations."""
