"""What needs torch: `hatch run torch:test`."""
