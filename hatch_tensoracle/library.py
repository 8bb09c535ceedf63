"""Makes one library of one configuration: the steps that the hook and the command line share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.cmake import build_library
from hatch_tensoracle.config import LibraryConfig
from hatch_tensoracle.incremental import make_bundle
from hatch_tensoracle.inspection import inspect_bundle, manifest_name

__all__ = ["make_library"]


def make_library(  # noqa: PLR0913 - the options
    config: LibraryConfig,
    root: Path,
    output: Path,
    progress: Callable[[str], None],
    *,
    jobs: int | None = None,
    verbose: bool = False,
    kept: Path | None = None,
) -> Bundle:
    """Produce the bundle, build the library around it and inspect both.

    `output` gets `bundle/`, and library and manifest at their paths in the wheel; `kept` is where CMake's files stay
    for the next build. Raises ConfigurationError, BuildError, BundleError, or an error of the producer.
    """
    bundle_directory, library = output / "bundle", output / config.library
    make_bundle(config, root, bundle_directory, progress, jobs)
    progress(f"building {config.library}")
    build_library(
        bundle_directory,
        [root / source for source in config.sources],
        library,
        include_directories=[root / directory for directory in config.include_directories],
        definitions=config.compile_definitions,
        arguments=config.cmake_arguments,
        jobs=jobs,
        kept=kept,
        show=progress if verbose else None,
    )
    shutil.copyfile(bundle_directory / "bundle.json", output / manifest_name(config.library))
    progress(f"inspecting {config.library}")
    return inspect_bundle(bundle_directory, plugin=library)
