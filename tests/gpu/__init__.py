"""The proof on a real GPU; docs/gpu.md says how to run it."""
