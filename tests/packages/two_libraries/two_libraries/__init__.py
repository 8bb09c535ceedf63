"""A package with two libraries."""
