"""Reads a wheel as an archive that may be hostile: its files, its tags, and whether they are those of RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import struct
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import IO, Self

from hatch_tensoracle._archive import Archive
from hatch_tensoracle.errors import BundleError, WheelError

__all__ = ["Wheel"]

_MAX_TEXT = 1 << 20
_MAX_RECORD = 16 << 20
_SPOOL = 1 << 20


class Wheel:
    """An open wheel. Opening and reading raise WheelError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = Archive(path)
        self._digests: dict[str, bytes] = {}
        """SHA-256 of what was copied, so that it is not unpacked again for RECORD."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the archive."""
        self._archive.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the files in the wheel."""
        return self._archive.names

    @cached_property
    def elf_names(self) -> tuple[str, ...]:
        """Paths of the files that begin as ELF files do."""
        return tuple(name for name in self.names if self._archive.head(name, 4) == b"\x7fELF")

    def elf_header(self, name: str) -> tuple[int, int, int, int]:
        """Class, order of bytes, type and machine, as numbers of the ELF header; 0 where the file has ended."""
        return struct.unpack("<4x2B10x2H", self._archive.head(name, 20).ljust(20, b"\0"))

    @property
    def named_tags(self) -> frozenset[str]:
        """Every tag that the file name makes, such as `py3-none-linux_x86_64`."""
        parts = self.path.name.removesuffix(".whl").split("-")
        if len(parts) not in {5, 6}:
            message = "is not named like a wheel: name-version-python-abi-platform.whl"
            raise WheelError(message, where=str(self.path))
        pythons, abis, platforms = (part.split(".") for part in parts[-3:])
        return frozenset(f"{python}-{abi}-{platform}" for python in pythons for abi in abis for platform in platforms)

    @property
    def written_tags(self) -> frozenset[str]:
        """Every tag in the file WHEEL."""
        lines = self.read(self._info("WHEEL"), limit=_MAX_TEXT).decode(errors="replace").splitlines()
        return frozenset(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))

    def size(self, name: str) -> int:
        """Bytes of the file."""
        return self._archive.size(name)

    def read(self, name: str, *, limit: int) -> bytes:
        """The whole file, of at most `limit` bytes."""
        return b"".join(self._archive.chunks(name, limit=limit))

    def open(self, name: str) -> IO[bytes]:
        """A seekable copy of the file, on disk above a megabyte."""
        copy = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - the caller's to close
        hashed, hashing = hashlib.sha256(), None
        try:
            with ThreadPoolExecutor(1) as worker:  # hashing and unpacking both let other threads run
                for chunk in self._archive.chunks(name):
                    if hashing is not None:
                        hashing.result()
                    hashing = worker.submit(hashed.update, chunk)
                    copy.write(chunk)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        self._digests[name] = hashed.digest()
        return copy

    def extract(self, name: str, directory: Path) -> Path:
        """Copy the file into a directory, without those that it lies in, and return the copy."""
        copy = directory / Path(name).name
        with copy.open("wb") as file:
            file.writelines(self._archive.chunks(name))
        return copy

    def digest(self, name: str, algorithm: str) -> bytes:
        """Of the file; `algorithm` is one of hashlib's."""
        if algorithm == "sha256" and name in self._digests:
            return self._digests[name]
        return _hash(algorithm, self._archive.chunks(name))

    def check_records(self) -> Iterator[BundleError]:
        """Yield a defect for every file that RECORD does not name, names wrongly, or has another digest of."""
        record, members = self._info("RECORD"), frozenset(self.names)
        listed: dict[str, tuple[str, str]] = {}
        for row in self._rows(record):
            if len(row) != 3:  # noqa: PLR2004 - path, digest, size (wheel specification)
                continue
            name, where = row[0], f"{self.path}: {row[0]}"
            if name in listed:
                yield WheelError("RECORD names it twice", where=where)
            elif name not in members:
                yield WheelError("RECORD names it, but it is not there", where=where)
            else:
                listed[name] = (row[1], row[2])
        for name in self.names:
            if name in {record, f"{record}.jws", f"{record}.p7s"}:
                continue
            if name not in listed:
                yield WheelError("RECORD does not name it", where=f"{self.path}: {name}")
            else:
                yield from self._check_digest(name, *listed[name])

    def _rows(self, record: str) -> Iterator[list[str]]:
        """Rows of RECORD, one after another: it may have millions."""
        text = io.StringIO(self.read(record, limit=_MAX_RECORD).decode(errors="replace"), newline="")
        try:
            yield from csv.reader(text)
        except csv.Error as error:
            raise WheelError(f"is no RECORD: {error}", where=f"{self.path}: {record}") from error

    def _check_digest(self, name: str, digest: str, size: str) -> Iterator[BundleError]:
        algorithm, _, expected = digest.partition("=")
        if algorithm not in {"sha256", "sha384", "sha512"}:
            yield WheelError(f"RECORD has no secure digest of it, but {digest!r}", where=f"{self.path}: {name}")
            return
        seen = base64.urlsafe_b64encode(self.digest(name, algorithm)).decode().rstrip("=")
        count = self._archive.size(name)
        if (seen, str(count)) != (expected, size):
            yield WheelError(
                f"{count} bytes with {algorithm} {seen}, RECORD has {size} with {expected}",
                where=f"{self.path}: {name}",
            )

    def _info(self, name: str) -> str:
        found = [member for member in self.names if re.fullmatch(rf"[^/]+\.dist-info/{name}", member)]
        if len(found) != 1:
            raise WheelError(f"has {len(found)} files *.dist-info/{name}, must have one", where=str(self.path))
        return found[0]


def _hash(algorithm: str, chunks: Iterable[bytes]) -> bytes:
    hashed = hashlib.new(algorithm)
    for chunk in chunks:
        hashed.update(chunk)
    return hashed.digest()
