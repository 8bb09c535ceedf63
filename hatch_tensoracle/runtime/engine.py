"""Opens engines: the saved one, if there is one for the same model, GPU and TensorRT; else one is built and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hatch_tensoracle.runtime.build import build_serialized_engine
from hatch_tensoracle.runtime.builder_settings import refuse_options
from hatch_tensoracle.runtime.cache import EngineCache, SavedEngine
from hatch_tensoracle.runtime.declaration import EngineBuild
from hatch_tensoracle.runtime.digests import weight_digests
from hatch_tensoracle.runtime.distribution import Distribution, distribution
from hatch_tensoracle.runtime.engine_io import EngineIO, check_io
from hatch_tensoracle.runtime.errors import CorruptEngineError, EngineConditionError, logged
from hatch_tensoracle.runtime.gpu import current_gpu
from hatch_tensoracle.runtime.identity import differences, engine_conditions
from hatch_tensoracle.runtime.needed_creators import missing_creators, used_creators
from hatch_tensoracle.runtime.plugin_creators import CreatorKey
from hatch_tensoracle.runtime.plugins import register_plugins
from hatch_tensoracle.runtime.settings import RuntimeSettings
from hatch_tensoracle.runtime.settings_slot import SettingsSlot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hatch_tensoracle.runtime.execution import EngineExecution

__all__ = ["EngineHandle", "open_engine"]

_Files = Sequence[str | os.PathLike[str]]


@dataclass(slots=True, kw_only=True, eq=False)
class EngineHandle:
    """An open engine. It keeps what the engine needs: TensorRT wants the runtime to live longer."""

    runtime: Any
    """TensorRT's IRuntime."""
    engine: Any
    """TensorRT's ICudaEngine."""
    distribution: Distribution
    """The TensorRT that it is of."""
    path: Path
    """The saved engine's file."""
    was_built: bool
    """Whether this call built it, rather than found it."""
    settings_slot: SettingsSlot = field(default_factory=SettingsSlot, repr=False)
    """Where its runtime settings are."""

    @property
    def runtime_settings(self) -> RuntimeSettings:
        """What its executions use unless they have been given others since."""
        return self.settings_slot.applied.settings

    @runtime_settings.setter
    def runtime_settings(self, settings: RuntimeSettings) -> None:
        self.settings_slot.assign(settings)

    def create_execution(self, *, caller_workspace: bool = False) -> EngineExecution:
        """Return an independent execution of the engine; see EngineExecution. Raises ExecutionError."""
        from hatch_tensoracle.runtime.execution import EngineExecution

        return EngineExecution(self, caller_workspace=caller_workspace)


def open_engine(  # noqa: PLR0913 - all but two by name
    graph: Callable[[Any], object],
    declaration: EngineBuild,
    *,
    name: str,
    graph_version: str,
    io: EngineIO,
    weights: _Files = (),
    plugins: _Files = (),
    force_rebuild: bool = False,
    progress: bool | None = None,
    **options: object,
) -> EngineHandle:
    """Return the engine that was saved for the same conditions; if there is none, build and save it.

    Conditions are the contents of `weights` and `plugins`, `name`, `graph_version`, `declaration`, the GPU, the system
    and TensorRT's version. The function `graph` is called to build only: what it reads besides `weights` is a condition
    only if `graph_version` says so. Of processes that open one engine at once, one builds. `force_rebuild` reads the
    weights again and replaces what is saved. `io` is compared with the engine, and is no condition. `progress` is that
    of `build_serialized_engine`.

    Raises TypeError and ValueError for what is declared wrongly, PluginLibraryError, GpuError, EngineBuildError, and
    of EngineCacheError: CorruptEngineError for a damaged file, or one that TensorRT does not take; EngineConditionError
    for one saved under other conditions, and for a plugin creator that is missing; EngineIOError.
    """
    refuse_options("open_engine", options)
    if not isinstance(declaration, EngineBuild):
        raise TypeError(f"open_engine: declaration must be an EngineBuild, not {declaration!r}")
    if not isinstance(io, EngineIO):
        raise TypeError(f"open_engine: io must be an EngineIO, not {io!r}")
    _check_text("name", name)
    _check_text("graph_version", graph_version)
    _check_files("weights", weights)
    _check_files("plugins", plugins)
    tensorrt = distribution(declaration.runtime)

    def conditions(*, refresh: bool = False) -> dict[str, Any]:
        return engine_conditions(
            declaration,
            name=name,
            graph_version=graph_version,
            weights=weight_digests(weights, refresh=refresh),
            plugins=[library.sha256 for library in register_plugins(plugins, tensorrt.name)],
            gpu=current_gpu(),
            tensorrt=(tensorrt.name, tensorrt.version),
        )

    cache, wanted = EngineCache(), conditions(refresh=force_rebuild)
    saved = None if force_rebuild else cache.load(wanted)
    if was_built := saved is None:
        with cache.building(wanted):
            saved = None if force_rebuild else cache.load(wanted)  # another process has built it meanwhile
            if was_built := saved is None:
                plan, creators = _build(graph, declaration, plugins, tensorrt, progress=progress)
                _refuse_changes(wanted, conditions())
                saved = cache.save(wanted, plan, creators)
    runtime, engine = _deserialize(saved, declaration, tensorrt)
    check_io(engine, io, declaration, saved.path)
    return EngineHandle(runtime=runtime, engine=engine, distribution=tensorrt, path=saved.path, was_built=was_built)


def _check_text(option: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"open_engine: {option} must be text, not {value!r}")
    if not value:
        raise ValueError(f"open_engine: {option} is empty")


def _check_files(option: str, value: object) -> None:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):  # an iterator would be empty the second time
        raise TypeError(f"open_engine: {option} must be a sequence of files, not {value!r}")


def _build(
    graph: Callable[[Any], object],
    declaration: EngineBuild,
    plugins: _Files,
    tensorrt: Distribution,
    *,
    progress: bool | None,
) -> tuple[bytes, tuple[CreatorKey, ...]]:
    creators: tuple[CreatorKey, ...] = ()

    def observed(network: Any) -> object:
        nonlocal creators
        result = graph(network)
        creators = used_creators(network, tensorrt.module)
        return result

    return build_serialized_engine(observed, declaration, plugins, progress=progress), creators


def _refuse_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    """A graph function that has read other weights than were hashed has made another engine."""
    for name, expected, seen in differences(before, after):
        raise EngineConditionError(
            f"{name} changed while the engine was built: it was {expected!r} and is {seen!r}",
            field=name,
            seen=seen,
            expected=expected,
            remedy="Open the engine again.",
        )


def _deserialize(saved: SavedEngine, declaration: EngineBuild, tensorrt: Distribution) -> tuple[Any, Any]:
    if not declaration.settings.embed_plugins:
        for creator in missing_creators(saved.creators, tensorrt.module):
            raise EngineConditionError(
                f"needs the creator of {creator}, which no library has registered in this process",
                field="creator",
                expected=creator,
                file=str(saved.path),
                remedy="Name the library that has it in open_engine(plugins=...).",
            )
    with tensorrt.messages() as messages:
        runtime = tensorrt.module.Runtime(tensorrt.logger)
        if declaration.settings.version_compatible or declaration.settings.embed_plugins:
            runtime.engine_host_code_allowed = True  # such plans carry code that runs on the host
        engine = runtime.deserialize_cuda_engine(saved.plan)
    if engine is None:
        raise CorruptEngineError(
            f"cannot be deserialized by {tensorrt}{logged(messages)}",
            file=str(saved.path),
            remedy="Does open_engine(plugins=...) name all plugin libraries? If so, build it again: force_rebuild=True",
        )
    return runtime, engine
