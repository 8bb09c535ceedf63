"""What can go wrong while kernels become cubins."""

from __future__ import annotations

from dataclasses import dataclass

from hatch_tensoracle.errors import TensoracleError

__all__ = ["CaptureError", "CompileError", "Failure", "ProducerError", "SpecError", "SpecTypeError", "ToolchainError"]


class ProducerError(TensoracleError):
    """Base of the producer's errors."""


class CaptureError(ProducerError):
    """A kernel uses something that cannot be compiled apart from the file it stands in."""


class SpecError(ProducerError, ValueError):
    """Specs do not fit together, or cannot be put into a bundle."""


class SpecTypeError(SpecError, TypeError):
    """Something that is no spec."""


class ToolchainError(ProducerError):
    """A tool is missing, or is not what it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One compile that gave no usable cubin."""

    kernel: str
    target: str
    cause: str

    def __str__(self) -> str:
        """Name kernel and target, then the cause."""
        return f"kernel `{self.kernel}` for {self.target}: {self.cause}"


class CompileError(ProducerError):
    """One or more kernels did not compile, or compiled to something else than was declared."""

    failures: tuple[Failure, ...]

    def __init__(
        self, failures: tuple[Failure, ...], *, remedy: str = "Change the kernel or its spec, or leave the target out."
    ) -> None:
        super().__init__("\n".join(map(str, failures)), remedy=remedy)
        self.args = (failures,)  # what unpickling calls the class with
        self.failures = failures

    def __str__(self) -> str:
        """One line, or a few, for each failure."""
        return "\n".join(map(str, self.failures))
