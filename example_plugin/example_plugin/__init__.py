"""Residual add and RMS normalisation as a TensorRT plugin."""

from pathlib import Path

__all__ = ["LIBRARY"]

LIBRARY = Path(__file__).with_name("libexample_plugin.so")
"""The library, to be loaded into TensorRT's plugin registry; it creates AddRmsNorm and MatmulBiasGelu, version 1."""
