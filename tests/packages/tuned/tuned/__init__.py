"""Nothing but the library."""
