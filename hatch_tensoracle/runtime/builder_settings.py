"""How TensorRT is to build, and where options went that are no part of it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from hatch_tensoracle.runtime.values import check_choice, checked_integer, checked_path

__all__ = ["BuilderSettings", "HardwareCompatibility", "refuse_moved_options", "refuse_options"]

HardwareCompatibility = Literal["none", "ampere_plus", "same_compute_capability"]
_LEVELS = range(6)
"""Of optimisation, as TensorRT documents them."""
_MOVED = ("cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy", "runtime_cache", "runtime_cache_path")


def refuse_options(place: str, options: Mapping[str, object]) -> None:
    """Raise TypeError if there are any options: none is known, but of some it is known where they went."""
    for name in options:
        if name in _MOVED:
            field = name.removesuffix("_path")
            raise TypeError(
                f"{place} has no option {name!r}: it is a choice of each execution, not of the build. Its place is "
                f"runtime_settings of the handle or the execution, as in RuntimeSettings({field}=...)"
            )
        raise TypeError(f"{place} has no option {name!r}")


def refuse_moved_options(place: str, options: Mapping[str, object]) -> None:
    """Raise TypeError for an option that went elsewhere; the others are left to whoever knows which there are."""
    refuse_options(place, {name: None for name in options if name in _MOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderSettings:
    """How TensorRT is to build. What a distribution lacks is refused at the build, by name."""

    workspace_limit: int | None = None
    """Bytes of device memory that layers may use; None is TensorRT's default, all there is."""
    optimization_level: int | None = None
    """0 to 5; None is TensorRT's default, 3."""
    tf32: bool = False
    """TF32 is always off: True raises ValueError."""
    timing_cache: str | os.PathLike[str] | None = None
    """File of timings from earlier builds, read and updated; no part of the identity. TensorRT-RTX has none."""
    version_compatible: bool = False
    """The plan is also for later versions of TensorRT, and runs code of its own, which the reader must allow."""
    hardware_compatibility: HardwareCompatibility = "none"
    """GPUs beside this one that the plan is for."""
    embed_plugins: bool = False
    """The plan carries the plugin libraries, and reading it loads them: whoever opens it must trust it."""
    aliased_plugin_io: bool = False
    """Plugins may write outputs over inputs."""
    compute_capabilities: Sequence[str] = ()
    """GPU generations that TensorRT-RTX builds for, such as `sm89`, or `current`; none is its default."""

    def __new__(cls, **options: object) -> Self:
        """Say of options that moved where they are."""
        refuse_moved_options(cls.__name__, options)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name in ("tf32", "version_compatible", "embed_plugins", "aliased_plugin_io"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"BuilderSettings: {name} must be true or false, not {getattr(self, name)!r}")
        if self.tf32:
            raise ValueError("BuilderSettings: tf32 must be false: it would cut fp32 products to 10 bits of mantissa")
        if self.workspace_limit is not None:
            self._set("workspace_limit", checked_integer("BuilderSettings: workspace_limit", self.workspace_limit))
            if self.workspace_limit < 0:
                raise ValueError(f"BuilderSettings: workspace_limit is {self.workspace_limit} bytes")
        if self.optimization_level is not None:
            self._set(
                "optimization_level", checked_integer("BuilderSettings: optimization_level", self.optimization_level)
            )
            if self.optimization_level not in _LEVELS:
                raise ValueError(f"BuilderSettings: optimization_level is {self.optimization_level}, must be 0 to 5")
        if self.timing_cache is not None:
            self._set("timing_cache", checked_path("BuilderSettings: timing_cache", self.timing_cache))
        check_choice("BuilderSettings: hardware_compatibility", self.hardware_compatibility, HardwareCompatibility)
        self._set("compute_capabilities", _compute_capabilities(self.compute_capabilities))

    def identity(self) -> dict[str, Any]:
        """What of it makes another engine, for JSON."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        del values["timing_cache"]
        return values | {"compute_capabilities": list(self.compute_capabilities)}

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def _compute_capabilities(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"BuilderSettings: compute_capabilities must be a sequence of names, not {given!r}")
    for name in given:
        if not isinstance(name, str) or not re.fullmatch(r"sm\d+|current", name):
            raise ValueError(f"BuilderSettings: compute_capabilities: {name!r} is not like 'sm89', nor 'current'")
    if len(set(given)) != len(given) or ("current" in given and len(given) > 1):
        raise ValueError(f"BuilderSettings: compute_capabilities {tuple(given)}: each once, `current` alone")
    return tuple(given)
