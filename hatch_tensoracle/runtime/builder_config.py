"""Turns builder settings into TensorRT's, or says which of them this TensorRT lacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hatch_tensoracle._files import write_whole
from hatch_tensoracle.runtime.builder_settings import BuilderSettings
from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.errors import EngineBuildError

__all__ = ["check_settings", "configure", "save_timing_cache"]


def check_settings(settings: BuilderSettings, tensorrt: Distribution) -> None:
    """Raise ValueError for a setting that this TensorRT lacks, or would pass over in silence."""
    for setting, why in _lacking(settings, tensorrt):
        raise ValueError(f"BuilderSettings: {setting} = {getattr(settings, setting)!r}: {tensorrt} {why}")


def configure(config: Any, settings: BuilderSettings, libraries: Sequence[str], trt: Any) -> None:
    """Set up an IBuilderConfig; `libraries` are the plugin libraries that a plan may carry."""
    config.clear_flag(trt.BuilderFlag.TF32)  # on by default in TensorRT-RTX
    if settings.workspace_limit is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace_limit)
    if settings.optimization_level is not None:
        config.builder_optimization_level = settings.optimization_level
    if settings.version_compatible:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    if settings.hardware_compatibility != "none":
        config.hardware_compatibility_level = _hardware_compatibility(settings, trt)
    if settings.aliased_plugin_io:
        config.set_preview_feature(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03, True)  # noqa: FBT003 - their signature
    if settings.embed_plugins:
        config.plugins_to_serialize = list(libraries)
    if settings.compute_capabilities:
        _set_compute_capabilities(config, settings.compute_capabilities, trt)
    if settings.timing_cache is not None:
        _load_timing_cache(config, Path(settings.timing_cache))


def save_timing_cache(config: Any, settings: BuilderSettings) -> None:
    """Write what the build has timed to the settings' file, if they name one; warn if it cannot be written."""
    if settings.timing_cache is not None:
        try:
            write_whole(Path(settings.timing_cache), bytes(config.get_timing_cache().serialize()))
        except OSError as error:  # the engine is built all the same
            warnings.warn(f"timings are not kept in {settings.timing_cache}: {error}", RuntimeWarning, stacklevel=2)


def _lacking(settings: BuilderSettings, tensorrt: Distribution) -> Iterator[tuple[str, str]]:
    """What a TensorRT lacks, as it says of itself; the settings of TensorRT-RTX as tried with 1.7."""
    trt = tensorrt.module
    if tensorrt.name == "tensorrt_rtx":
        if settings.timing_cache is not None:
            yield "timing_cache", "has no timing caches"
        if settings.version_compatible:
            yield "version_compatible", "has no lean runtime to put into a plan"
        if settings.hardware_compatibility != "none":
            yield "hardware_compatibility", "has compute_capabilities instead"
        known = [name.lower() for name in trt.ComputeCapability.__members__ if name != "NONE"]
        if not set(settings.compute_capabilities) <= set(known):
            yield "compute_capabilities", f"has {', '.join(known)}"
    else:
        if settings.compute_capabilities:
            yield "compute_capabilities", "builds for the GPU at hand; see hardware_compatibility"
        if settings.embed_plugins and not settings.version_compatible:
            yield "embed_plugins", "puts libraries into version-compatible plans only"
        if settings.hardware_compatibility != "none" and _hardware_compatibility(settings, trt) is None:
            yield "hardware_compatibility", "does not have it"
    if settings.aliased_plugin_io and not hasattr(trt.PreviewFeature, "ALIASED_PLUGIN_IO_10_03"):
        yield "aliased_plugin_io", "does not have it"


def _hardware_compatibility(settings: BuilderSettings, trt: Any) -> Any:
    return getattr(trt.HardwareCompatibilityLevel, settings.hardware_compatibility.upper(), None)


def _set_compute_capabilities(config: Any, names: Sequence[str], trt: Any) -> None:
    config.num_compute_capabilities = len(names)
    for index, name in enumerate(names):
        if not config.set_compute_capability(getattr(trt.ComputeCapability, name.upper()), index):
            raise EngineBuildError(f"compute capability {name} is refused")


def _load_timing_cache(config: Any, path: Path) -> None:
    cache = config.create_timing_cache(path.read_bytes() if path.exists() else b"")
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        raise EngineBuildError(f"{path} is no timing cache of this TensorRT and GPU: delete it, or name another file")
