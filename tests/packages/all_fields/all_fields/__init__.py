"""A package whose plugin has a field of every type."""
