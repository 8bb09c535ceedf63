"""Registers the build hook with hatchling."""

from __future__ import annotations

from hatchling.plugin import hookimpl

from hatch_tensoracle.build_hook import TensoracleBuildHook

__all__ = ["hatch_register_build_hook"]


@hookimpl
def hatch_register_build_hook() -> type[TensoracleBuildHook]:
    """Return the hook that `[tool.hatch.build.targets.wheel.hooks.tensoracle]` configures."""
    return TensoracleBuildHook
