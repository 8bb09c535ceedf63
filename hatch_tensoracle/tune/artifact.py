"""The library to tune, out of a wheel if it is in one, and its manifest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hatch_tensoracle.bundle import MAX_MANIFEST, Bundle
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.wheel import Wheel

__all__ = ["opened"]


@contextmanager
def opened(path: Path, plugin: str | None = None) -> Iterator[tuple[Path, Bundle, str]]:
    """The library as a file, its manifest, and what to call it. `plugin` is the library's path in a wheel.

    Nothing is inspected: that takes packages that running a plugin does not. Raises ConfigurationError, WheelError or
    ManifestError.
    """
    if path.suffix != ".whl":
        manifest = Path(manifest_name(str(path)))
        if not manifest.is_file():
            raise ConfigurationError(f"{manifest} is missing", remedy="Keep a library's manifest beside it.")
        yield path, Bundle.parse(manifest.read_bytes(), str(manifest)), str(path)
        return
    with tempfile.TemporaryDirectory() as directory, Wheel(path) as wheel:
        name = _chosen(wheel, plugin)
        text = wheel.read(manifest_name(name), limit=MAX_MANIFEST)
        bundle = Bundle.parse(text, f"{path}: {manifest_name(name)}")
        yield wheel.extract(name, Path(directory)), bundle, f"{path}: {name}"


def _chosen(wheel: Wheel, plugin: str | None) -> str:
    found = [name for name in wheel.names if name.endswith(".so") and manifest_name(name) in wheel.names]
    chosen = [name for name in found if plugin in {None, name}]
    if len(chosen) != 1:
        what = f"holds {', '.join(found) or 'no plugin library'}"
        raise ConfigurationError(f"{wheel.path} {what}", remedy="Choose one with --plugin." if found else "")
    return chosen[0]
