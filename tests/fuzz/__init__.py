"""Inspection reads what chance has damaged: `python tests/fuzz/fuzz.py --count 100000`."""
