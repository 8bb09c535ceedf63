"""Reads a wheel as an archive that may be hostile: names, sizes and records are checked before anything is used."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from hatch_tensoracle.errors import BundleError, WheelError

__all__ = ["Wheel"]

_MAX_MEMBER = 4 << 30
"""Bytes: no library of a wheel is larger; TensorRT maps it whole."""
_MAX_TEXT = 64 << 20
_SPOOL = 8 << 20
_CHUNK = 1 << 20


class Wheel:
    """An open wheel. Opening and reading raise WheelError; nothing is ever extracted to disk by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise WheelError(f"is not a readable wheel: {error}", where=str(path)) from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            self._admit(member)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the archive."""
        self._zip.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the files in the wheel."""
        return tuple(self._members)

    @cached_property
    def elf_names(self) -> tuple[str, ...]:
        """Paths of the files that begin as ELF files do."""
        return tuple(name for name in self._members if next(self._chunks(name, _MAX_MEMBER), b"")[:4] == b"\x7fELF")

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

    def read(self, name: str, *, limit: int) -> bytes:
        """The whole file, of at most `limit` bytes."""
        with self.open(name, limit=limit) as stream:
            return stream.read()

    def open(self, name: str, *, limit: int = _MAX_MEMBER) -> IO[bytes]:
        """A seekable copy of the file, on disk above a few megabytes."""
        copy = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115 - the caller's to close
        try:
            for chunk in self._chunks(name, limit):
                copy.write(chunk)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return copy

    def check_records(self) -> Iterator[BundleError]:
        """Yield a defect for every file that RECORD does not name, names wrongly, or has another digest of."""
        record = self._info("RECORD")
        listed: dict[str, tuple[str, str]] = {}
        try:
            rows = list(csv.reader(io.StringIO(self.read(record, limit=_MAX_TEXT).decode(errors="replace"))))
        except csv.Error as error:
            raise WheelError(f"is no RECORD: {error}", where=f"{self.path}: {record}") from error
        for row in rows:
            if len(row) == 3:  # noqa: PLR2004 - path, digest, size (wheel specification)
                listed[row[0]] = (row[1], row[2])
        for name in self._members:
            if name in {record, f"{record}.jws", f"{record}.p7s"}:
                continue
            if name not in listed:
                yield WheelError("RECORD does not name it", where=f"{self.path}: {name}")
            else:
                yield from self._check_digest(name, *listed[name])
        for name in listed:
            if name not in self._members:
                yield WheelError("RECORD names it, but it is not there", where=f"{self.path}: {name}")

    def _check_digest(self, name: str, digest: str, size: str) -> Iterator[BundleError]:
        algorithm, _, expected = digest.partition("=")
        if algorithm not in {"sha256", "sha384", "sha512"}:
            yield WheelError(f"RECORD has no secure digest of it, but {digest!r}", where=f"{self.path}: {name}")
            return
        hashed, count = hashlib.new(algorithm), 0
        for chunk in self._chunks(name, _MAX_MEMBER):
            hashed.update(chunk)
            count += len(chunk)
        seen = base64.urlsafe_b64encode(hashed.digest()).decode().rstrip("=")
        if (seen, str(count)) != (expected, size):
            yield WheelError(
                f"{count} bytes with {algorithm} {seen}, RECORD has {size} with {expected}",
                where=f"{self.path}: {name}",
            )

    def _admit(self, member: zipfile.ZipInfo) -> None:
        name, where = member.filename, f"{self.path}: {member.filename!r}"
        if name in self._members:
            raise WheelError("stands in the archive twice", where=where)
        path = PurePosixPath(name)
        # orig_filename still has what zipfile cuts off at a NUL. `a//b` and `a/./b` would be written over `a/b`.
        if name != member.orig_filename or "\\" in name or ":" in name or path.is_absolute() or ".." in path.parts:
            raise WheelError("is no relative path inside the wheel", where=where)
        if not path.parts or str(path) != name.removesuffix("/"):
            raise WheelError(f"is not in its plain form `{path}`", where=where)
        if member.flag_bits & 1:
            raise WheelError("is encrypted", where=where)
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            # zipfile unpacks the others by whole chunks, whatever their size in memory.
            raise WheelError(f"is compressed by method {member.compress_type}, wheels are deflated", where=where)
        if member.file_size > _MAX_MEMBER:
            raise WheelError(f"says it has {member.file_size} bytes; at most {_MAX_MEMBER} are read", where=where)
        if not name.endswith("/"):
            self._members[name] = member

    def _info(self, name: str) -> str:
        found = [member for member in self._members if re.fullmatch(rf"[^/]+\.dist-info/{name}", member)]
        if len(found) != 1:
            raise WheelError(f"has {len(found)} files *.dist-info/{name}, must have one", where=str(self.path))
        return found[0]

    def _chunks(self, name: str, limit: int) -> Iterator[bytes]:
        count = 0
        try:
            with self._zip.open(self._members[name]) as stream:
                while chunk := stream.read(_CHUNK):
                    count += len(chunk)
                    if count > limit:
                        raise WheelError(f"has more than {limit} bytes", where=f"{self.path}: {name}")
                    yield chunk
            if count != self._members[name].file_size:
                said = self._members[name].file_size
                raise WheelError(f"says it has {said} bytes, has {count}", where=f"{self.path}: {name}")
        except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise WheelError(f"cannot be read: {error}", where=f"{self.path}: {name}") from error
