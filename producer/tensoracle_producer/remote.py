"""A directory on any file system that fsspec knows, which machines share as a cache."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

__all__ = ["Remote"]

_URL_VARIABLE = "TENSORACLE_CACHE_URL"


class Remote:
    """Reads and writes files by name. After a failure `outage` is its cause and no more is tried: nothing is raised."""

    def __init__(self, url: str) -> None:
        self.outage = ""
        try:
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(url)
        except ModuleNotFoundError:
            self.outage = f"{_URL_VARIABLE} is set, but fsspec is not installed: hatch-tensoracle[fsspec] brings it"
        except Exception as error:  # noqa: BLE001 - whatever the file system raises
            self._fail(error)

    @classmethod
    def named(cls, kind: str) -> Remote | None:
        """The directory of this kind below the variable TENSORACLE_CACHE_URL, None if that is not set."""
        url = os.environ.get(_URL_VARIABLE)
        return cls(f"{url.rstrip('/')}/{kind}") if url else None

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of those that are there."""
        if self.outage:
            return {}
        try:
            found = self._files.cat([f"{self._root}/{name}" for name in names], on_error="return")
        except Exception as error:  # noqa: BLE001 - whatever the file system raises
            self._fail(error)
            return {}
        for content in found.values():
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                self._fail(content)
                break
        return {path.rpartition("/")[2]: content for path, content in found.items() if isinstance(content, bytes)}

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write every file."""
        if self.outage:
            return
        try:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe({f"{self._root}/{name}": content for name, content in contents.items()})
        except Exception as error:  # noqa: BLE001 - whatever the file system raises
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        url = os.environ.get(_URL_VARIABLE)
        self.outage = f"{url}: {type(error).__name__}: {error}".rstrip(": ")
