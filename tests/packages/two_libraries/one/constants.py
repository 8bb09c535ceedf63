"""A helper of kernels.py."""

FACTOR = 2.0
