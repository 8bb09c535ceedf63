"""Compiles declared Triton kernels ahead of time into a bundle of cubins, without a GPU."""

from tensoracle_producer.errors import CaptureError, CompileError, Failure, ProducerError, ToolchainError
from tensoracle_producer.produce import compile_bundle
from tensoracle_producer.spec import Config, KernelSpec, Pointer, Scalar

__all__ = [
    "CaptureError",
    "CompileError",
    "Config",
    "Failure",
    "KernelSpec",
    "Pointer",
    "ProducerError",
    "Scalar",
    "ToolchainError",
    "compile_bundle",
]
