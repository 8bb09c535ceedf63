"""Builds a serialized engine from a graph function and a declaration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hatch_tensoracle.runtime.builder_config import check_settings, configure, save_timing_cache
from hatch_tensoracle.runtime.builder_settings import refuse_options
from hatch_tensoracle.runtime.declaration import EngineBuild
from hatch_tensoracle.runtime.distribution import Distribution, distribution
from hatch_tensoracle.runtime.errors import EngineBuildError
from hatch_tensoracle.runtime.multi_device import refuse_multi_device
from hatch_tensoracle.runtime.network import check_network
from hatch_tensoracle.runtime.plugins import library_paths, refuse_replaced, register_plugins
from hatch_tensoracle.runtime.progress import watched

__all__ = ["build_serialized_engine"]


def build_serialized_engine(
    graph: Callable[[Any], object],
    declaration: EngineBuild,
    plugins: Iterable[str | os.PathLike[str]] = (),
    *,
    progress: bool | None = None,
    **options: object,
) -> bytes:
    """Call `graph` with an empty, strongly typed INetworkDefinition, build an engine of it and return the plan.

    `graph` adds inputs and layers and marks outputs; what it returns is kept alive until the engine is built, which is
    for weights in memory of its own. `plugins` are libraries to register first. `progress` shows a bar on stderr: None
    means if that is a terminal. Ctrl-C cancels the build. TensorRT needs a GPU, TensorRT-RTX none.

    Raises TypeError and ValueError for a declaration that is wrong, does not fit the graph, or asks for what this
    TensorRT lacks; PluginLibraryError; EngineBuildError, a RuntimeError, with TensorRT's messages if it fails, after
    which TensorRT-RTX has been seen to fail in the same process where it need not; and what `graph` raises.
    """
    refuse_options("build_serialized_engine", options)
    if not callable(graph):
        raise TypeError(f"graph must be a function of a network, not {graph!r}")
    if not isinstance(declaration, EngineBuild):
        raise TypeError(f"declaration must be an EngineBuild, not {declaration!r}")
    tensorrt = distribution(declaration.runtime)
    check_settings(declaration.settings, tensorrt)
    paths = library_paths(plugins)
    libraries = {
        library.sha256: path for library, path in zip(register_plugins(paths, tensorrt.name), paths, strict=True)
    }
    with tensorrt.messages() as messages:
        try:
            plan = _build(graph, declaration, libraries, tensorrt, progress=progress)
        except EngineBuildError as error:
            error.messages = tuple(dict.fromkeys((*error.messages, *messages)))  # the parser logs what it returns
            raise
    return plan


def _build(
    graph: Callable[[Any], object],
    declaration: EngineBuild,
    libraries: Mapping[str, Path],
    tensorrt: Distribution,
    *,
    progress: bool | None,
) -> bytes:
    trt = tensorrt.module
    if not hasattr(trt, "Builder"):
        raise ValueError(f"runtime {tensorrt.name!r} executes engines and builds none")
    try:
        builder = trt.Builder(tensorrt.logger)
    except TypeError as error:  # pybind11's word for a factory that returned nothing
        raise EngineBuildError(f"{tensorrt} has no builder here") from error
    network = builder.create_network(_strongly_typed(trt))
    kept = graph(network)
    check_network(network, declaration)
    refuse_multi_device(network, trt)
    config = builder.create_builder_config()
    configure(config, declaration.settings, [str(path) for path in libraries.values()], trt)
    _add_profiles(builder, config, declaration)
    with watched(config, show=progress):
        plan = builder.build_serialized_network(network, config)
    del kept
    if plan is None:
        raise EngineBuildError(f"{tensorrt} could not build the engine")
    if declaration.settings.embed_plugins:
        for sha256, path in libraries.items():
            refuse_replaced(path, sha256, "embedded")
    save_timing_cache(config, declaration.settings)
    return bytes(plan)


def _strongly_typed(trt: Any) -> int:
    # A release that dropped the flag has no other networks.
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _add_profiles(builder: Any, config: Any, declaration: EngineBuild) -> None:
    for index in range(declaration.profile_count):
        profile = builder.create_optimization_profile()
        for name, shape in declaration.profile(index).items():
            set_shape = profile.set_shape if shape.kind == "shape" else profile.set_shape_input
            set_shape(name, shape.min, shape.opt, shape.max)
        if config.add_optimization_profile(profile) < 0:
            raise EngineBuildError(f"optimization profile {index} is refused: {declaration.profile(index)}")
