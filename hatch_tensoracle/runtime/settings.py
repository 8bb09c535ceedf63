"""Choices that are made when an engine is executed: they change neither the engine nor its identity."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, Literal, Self

from hatch_tensoracle.runtime.kernel_cache import RuntimeCache
from hatch_tensoracle.runtime.values import check_choice

__all__ = ["CudaGraphStrategy", "RuntimeSettings", "SpecializationStrategy"]

CudaGraphStrategy = Literal["disabled", "whole_graph_capture"]
SpecializationStrategy = Literal["lazy", "eager", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """What TensorRT-RTX samples when an execution context is made. `tensorrt` has none of it: there nothing changes.

    Raises ValueError for a value that is none, TypeError for a name that is none and a cache of another type.
    """

    cuda_graph_strategy: CudaGraphStrategy = "disabled"
    """`whole_graph_capture`: TensorRT-RTX captures what it enqueues into CUDA graphs of its own and replays them."""
    dynamic_shapes_kernel_specialization_strategy: SpecializationStrategy = "lazy"
    """When kernels are compiled for a new shape: in the background, before it is executed (`eager`), or never."""
    runtime_cache: RuntimeCache | str | os.PathLike[str] | None = None
    """Where compiled kernels are kept; a path is a cache of its own for whoever has these settings. It becomes text."""

    def __post_init__(self) -> None:
        check_choice("RuntimeSettings: cuda_graph_strategy", self.cuda_graph_strategy, CudaGraphStrategy)
        check_choice(
            "RuntimeSettings: dynamic_shapes_kernel_specialization_strategy",
            self.dynamic_shapes_kernel_specialization_strategy,
            SpecializationStrategy,
        )
        cache = self.runtime_cache
        if isinstance(cache, str | os.PathLike):
            object.__setattr__(self, "runtime_cache", os.fsdecode(cache))
            if not self.runtime_cache:
                raise ValueError("RuntimeSettings: runtime_cache is an empty path")
        elif not isinstance(cache, RuntimeCache | None):
            raise TypeError(f"RuntimeSettings: runtime_cache must be a path or a RuntimeCache, not {cache!r}")

    def merge(self, **changes: Any) -> Self:
        """Return these settings with some changed."""
        return dataclasses.replace(self, **changes)
