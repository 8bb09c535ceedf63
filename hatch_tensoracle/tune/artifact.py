"""The library to tune, out of a wheel if it is in one, and its manifest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.wheel import Wheel

__all__ = ["opened"]


@contextmanager
def opened(path: Path, plugin: str | None = None) -> Iterator[tuple[Path, Bundle]]:
    """The library as a file, and the manifest that lies beside it. `plugin` is the library's path in a wheel.

    Nothing is inspected: that takes packages that running a plugin does not. Raises ConfigurationError, WheelError or
    ManifestError.
    """
    with tempfile.TemporaryDirectory() as directory:
        library = path if path.suffix != ".whl" else _unpacked(path, plugin, Path(directory))
        manifest = Path(manifest_name(str(library)))
        if not manifest.is_file():
            raise ConfigurationError(f"{manifest} is missing", remedy="Keep a library's manifest beside it.")
        yield library, Bundle.parse(manifest.read_bytes(), str(manifest))


def _unpacked(path: Path, plugin: str | None, directory: Path) -> Path:
    with Wheel(path) as wheel:
        found = [name for name in wheel.names if name.endswith(".so") and manifest_name(name) in wheel.names]
        chosen = [name for name in found if plugin in {None, name}]
        if len(chosen) != 1:
            what = f"holds {', '.join(found) or 'no plugin library'}"
            raise ConfigurationError(f"{path} {what}", remedy="Choose one with --plugin." if found else "")
        wheel.extract(manifest_name(chosen[0]), directory)
        return wheel.extract(chosen[0], directory)
