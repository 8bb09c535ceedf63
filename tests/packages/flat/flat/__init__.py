"""A package with its library beside this file."""
