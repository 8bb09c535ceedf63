"""A helper of kernels.py."""

FACTOR = 3.0
