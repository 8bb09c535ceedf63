"""A package below src."""
