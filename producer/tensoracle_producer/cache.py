"""Remembers compiled kernels by content, so that only what has changed is compiled again."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os

from hatch_tensoracle._files import write_whole
from hatch_tensoracle._paths import cache_directory
from tensoracle_producer.compiler import Compiled, Job
from tensoracle_producer.toolchain import Toolchain

__all__ = ["CubinCache"]

_FORMAT = 1
_LIMIT = 2 << 30
"""Bytes: when the files are more together, those that were not used for longest go."""


class CubinCache:
    """Files below the user's cache directory, shared by all processes; each is written whole or not at all.

    The key is taken over the record of the kernel, its signature, options and target, and the versions of the tools. A
    job that keeps its PTX has another, so that files without PTX serve all others. A file whose digest is wrong counts
    as none. After a failure to write, `outage` is its cause and no more is tried.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._directory = cache_directory() / "cubins"
        self._versions = tuple(sorted(toolchain.versions.items()))
        self.outage: OSError | None = None

    def get(self, job: Job) -> Compiled | None:
        """What the job compiled to before, None if that is not known."""
        path = self._directory / self._key(job)
        try:
            digest, content = path.read_bytes().split(b"\n", 1)
            if hashlib.sha256(content).hexdigest().encode() != digest:
                return None
            header, cubin = content.split(b"\n", 1)
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):  # of a cache that can only be read
            os.utime(path)
        return Compiled(cubin=cubin, seconds=0.0, **json.loads(header))

    def put(self, job: Job, compiled: Compiled) -> None:
        """Remember what the job compiled to."""
        header = dataclasses.asdict(compiled)
        del header["cubin"], header["seconds"]
        if not job.keeps_ptx:
            del header["ptx"]
        content = json.dumps(header).encode() + b"\n" + compiled.cubin
        digest = hashlib.sha256(content).hexdigest().encode()
        if self.outage is None:
            try:
                write_whole(self._directory / self._key(job), digest + b"\n" + content)
            except OSError as error:
                self.outage = error

    def prune(self) -> None:
        """Keep the size within its limit."""
        files = []
        for path in self._directory.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process prunes too
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        size = sum(size for _, size, _ in files)
        for _, own, path in sorted(files):
            if size <= _LIMIT:
                return
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                self.outage = error
                return
            size -= own

    def _key(self, job: Job) -> str:
        tools = (self._versions, job.ptxas.name)  # ptxas writes the name that it was started by into cubins
        ptx = ("ptx",) if job.keeps_ptx else ()
        return job.record.digest(_FORMAT, tools, job.signature, job.divisibility, job.options, job.sm, *ptx)
