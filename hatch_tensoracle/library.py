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


def make_library(config: LibraryConfig, root: Path, output: Path, progress: Callable[[str], None]) -> Bundle:
    """Produce the bundle, build the library around it and inspect both.

    `output` gets `bundle/`, and library and manifest at their paths in the wheel. Raises ConfigurationError,
    BuildError, BundleError, or an error of the producer.
    """
    bundle_directory, library = output / "bundle", output / config.library
    make_bundle(config, root, bundle_directory, progress)
    progress(f"building {config.library}")
    build_library(bundle_directory, [root / source for source in config.sources], library)
    shutil.copyfile(bundle_directory / "bundle.json", output / manifest_name(config.library))
    progress(f"inspecting {config.library}")
    return inspect_bundle(bundle_directory, plugin=library)
