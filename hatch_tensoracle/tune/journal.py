"""The measurements as they are made: one line each, on disk before the next is begun."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from hatch_tensoracle._decode import decode
from hatch_tensoracle.errors import ConfigurationError

__all__ = ["Header", "Journal", "Times", "journal_path"]

T = TypeVar("T")

JOURNAL_SCHEMA = 1

Times = Mapping[str, float | None]
"""Microseconds by configuration; None for one that cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What all measurements of a journal were made on."""

    gpu: str
    sm: int
    driver: str
    kernels: str
    """Digest of the bundle as it is without tuning."""
    journal: int = JOURNAL_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    case: str
    kernel: str
    sizes: Mapping[str, int]
    us: Mapping[str, float | None]


def journal_path(output: Path) -> Path:
    """Where the journal of a tuning.json lies."""
    return output.with_suffix(".journal.jsonl")


class Journal:
    """The journal of one GPU, driver and bundle. It is this process's until it is closed.

    A last line that was not written to its end is taken away. Raises ConfigurationError for a journal of something
    else, one that is damaged, and one that another process writes.
    """

    def __init__(self, path: Path, header: Header, *, restart: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("a+b")
        try:
            self._lock()
            if restart:
                self._file.truncate(0)
            self._times = self._read(header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._times)

    def find(self, case: str, sizes: Mapping[str, int]) -> Times | None:
        """What was measured of a case with these sizes."""
        return self._times.get(_key(case, sizes))

    def add(self, case: str, kernel: str, sizes: Mapping[str, int], times: Times) -> None:
        """Write a measurement; it is on disk on return."""
        line = _Line(case=case, kernel=kernel, sizes=sizes, us=times)
        self._write(dataclasses.asdict(line))
        self._times[_key(case, sizes)] = times

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} is in use: another run is measuring", remedy="Wait for it, or name another --output."
            ) from error

    def _read(self, header: Header) -> dict[object, Times]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rpartition(b"\n")[0]
        lines = whole.split(b"\n") if whole else []
        self._file.truncate(len(whole) + 1 if lines else 0)
        if not lines:
            self._write(dataclasses.asdict(header))
            return {}
        self._check(self._decode(Header, lines[0], 1), header)
        found = [self._decode(_Line, line, number) for number, line in enumerate(lines[1:], 2)]
        return {_key(line.case, line.sizes): line.us for line in found}

    def _decode(self, kind: type[T], line: bytes, number: int) -> T:
        try:
            return decode(kind, json.loads(line))
        except (ValueError, RecursionError) as error:  # of JSON and of decode
            raise ConfigurationError(
                f"{self.path}:{number} is damaged: {error}",
                remedy="Take the line away, or measure anew with --restart.",
            ) from error

    def _check(self, found: Header, header: Header) -> None:
        names = [field.name for field in dataclasses.fields(Header)]
        pairs = [(name, getattr(found, name), getattr(header, name)) for name in names]
        if differences := [f"{name} {old}, now {new}" for name, old, new in pairs if old != new]:
            raise ConfigurationError(
                f"{self.path} was measured on something else: {'; '.join(differences)}",
                remedy="Name another --output, or measure anew with --restart, which forgets that journal.",
            )

    def _write(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _key(case: str, sizes: Mapping[str, int]) -> object:
    return case, tuple(sorted(sizes.items()))
