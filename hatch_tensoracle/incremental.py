"""The producer's step: from the kernels file to the bundle, or, if nothing has changed, from earlier builds to it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatch_tensoracle._decode import decode
from hatch_tensoracle._paths import templates
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.config import LibraryConfig
from hatch_tensoracle.dependencies import Dependencies
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.kernels_file import Beside, load_kernels
from hatch_tensoracle.observation import observed
from hatch_tensoracle.tuning import read_tuning

if TYPE_CHECKING:
    from tensoracle_producer.produce import Production
    from tensoracle_producer.toolchain import Toolchain

__all__ = ["make_bundle"]

_LIMIT = 64 << 20
"""Bytes of all records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One bundle that was made."""

    dependencies: Dependencies
    manifest: str
    keys: Mapping[str, str]
    """The key in the cubin cache of every file of code."""


def make_bundle(
    config: LibraryConfig, root: Path, directory: Path, progress: Callable[[str], None], jobs: int | None = None
) -> Bundle:
    """Make the bundle directory of a library.

    If all that the kernels file was read from is as it was when a bundle was made of it, with the same options by the
    same tools, neither it nor Triton is imported: what the user's cache has is written again. Raises
    ConfigurationError, or an error of the producer.
    """
    from tensoracle_producer.restore import restore_bundle
    from tensoracle_producer.store import Store
    from tensoracle_producer.toolchain import find_toolchain

    started, has_torch = time.time_ns(), "torch" in sys.modules
    root = root.resolve()
    toolchain = find_toolchain(root / config.ptxas if config.ptxas is not None else None)
    store = Store("builds", _LIMIT)
    key = _key(config, root, toolchain)
    record = _decoded(store.read([key]).get(key))
    kernels_file = (root / config.kernels_file).resolve()
    beside = Beside(kernels_file.parent)
    if record is not None:
        changed = record.dependencies.changed(root, beside.directory)
        if changed is not None:
            progress(f"{changed} has changed since an earlier build")
        elif (bundle := restore_bundle(record.manifest.encode(), record.keys, toolchain, directory)) is not None:
            progress(f"compiling nothing: all is as in an earlier build, {len(record.keys)} files come from the cache")
            return bundle
    with observed(beside, root) as seen:
        kernels = load_kernels(kernels_file, config.kernels_name)
    if "torch" in sys.modules and not has_torch:
        progress(f"{config.kernels_file} imports torch, which every build then has to install: kernels need none of it")
    dependencies = Dependencies.of(seen, root)
    production = _produce(kernels, config, root, directory, toolchain, jobs, progress)
    if not _written_since(started, root, [*dependencies.files, *filter(None, [config.tuning])]):
        record = _Record(dependencies=dependencies, manifest=production.bundle.to_json().decode(), keys=production.keys)
        store.write(key, json.dumps(asdict(record)).encode())
        store.close()
    return production.bundle


def _produce(  # noqa: PLR0913, PLR0917 - what a bundle is made of
    kernels: tuple[Any, ...],
    config: LibraryConfig,
    root: Path,
    directory: Path,
    toolchain: Toolchain,
    jobs: int | None,
    progress: Callable[[str], None],
) -> Production:
    from tensoracle_producer.errors import SpecError
    from tensoracle_producer.produce import produce

    goals = (*config.targets, *([f"{config.ptx} PTX"] if config.ptx else []))
    progress(f"compiling {len(kernels)} kernels for {', '.join(goals)}")
    tuning = read_tuning(root / config.tuning) if config.tuning is not None else ()
    try:
        return produce(
            kernels,
            config.targets,
            directory,
            ptx=config.ptx,
            toolchain=toolchain,
            tuning=tuning,
            jobs=jobs,
            progress=progress,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{config.tuning}: {error}", remedy=error.remedy) from error
    except SpecError as error:
        raise ConfigurationError(f"{config.kernels}: {error}", remedy="Mend the specs in the kernels file.") from error


def _key(config: LibraryConfig, root: Path, toolchain: Toolchain) -> str:
    """Over all that decides on the bundle beside what the kernels file reads; no directory is part of it."""
    import tensoracle_producer
    from tensoracle_producer.toolchain import source_digest

    packages = (Path(__file__).parent, Path(tensoracle_producer.__file__).parent)
    rendered = (file for file in templates().rglob("*") if file.is_file())
    own = source_digest([*(file for package in packages for file in package.glob("*.py")), *rendered])
    read = [
        hashlib.sha256((root / file).read_bytes()).hexdigest() if file is not None else None
        for file in (config.kernels_file, config.tuning)
    ]
    # ptxas writes the name that it was started by into cubins
    tools = (toolchain.versions, toolchain.ptxas.name, sys.version_info[:2])
    options = (config.kernels, config.targets, config.ptx)
    return hashlib.sha256(repr((own, tools, options, read)).encode()).hexdigest()


def _written_since(moment: int, root: Path, files: Iterable[str]) -> bool:
    """Whether one of the files may have been written after it was read."""
    return any(path.stat().st_mtime_ns >= moment for file in files if (path := root / file).exists())


def _decoded(content: bytes | None) -> _Record | None:
    if content is None:
        return None
    try:
        return decode(_Record, json.loads(content))
    except ValueError:  # of another release's form
        return None
