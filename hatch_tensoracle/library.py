"""Makes one library of one configuration: the steps that the hook and the command line share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.cmake import build_library
from hatch_tensoracle.config import LibraryConfig
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.inspection import inspect_bundle, manifest_name
from hatch_tensoracle.kernels_file import load_kernels
from hatch_tensoracle.tuning import Tuning, read_tuning

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
    kernels = load_kernels((root / config.kernels_file).resolve(), config.kernels_name)
    bundle_directory, library = output / "bundle", output / config.library
    goals = (*config.targets, *([f"{config.ptx} PTX"] if config.ptx else []))
    progress(f"compiling {len(kernels)} kernels for {', '.join(goals)}")
    tuning = read_tuning(root / config.tuning) if config.tuning is not None else ()
    bundle = _compile(kernels, tuning, config, root, bundle_directory, progress, jobs)
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
    (output / manifest_name(config.library)).write_bytes(bundle.to_json())
    progress(f"inspecting {config.library}")
    return inspect_bundle(bundle_directory, plugin=library)


def _compile(  # noqa: PLR0913, PLR0917 - the options
    kernels: tuple[object, ...],
    tuning: Sequence[Tuning],
    config: LibraryConfig,
    root: Path,
    directory: Path,
    progress: Callable[[str], None],
    jobs: int | None,
) -> Bundle:
    from tensoracle_producer import compile_bundle

    try:
        return compile_bundle(
            kernels,  # type: ignore[arg-type]
            config.targets,
            directory,
            ptx=config.ptx,
            ptxas=root / config.ptxas if config.ptxas is not None else None,
            tuning=tuning,
            jobs=jobs,
            progress=progress,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{config.tuning}: {error}", remedy=error.remedy) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{config.kernels}: {error}", remedy="Mend the specs in the kernels file.") from error
