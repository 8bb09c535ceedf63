"""Remembers compiled kernels by content, so that only what has changed is compiled again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from tensoracle_producer import compiler, ptx, rebuild
from tensoracle_producer.compiler import Compiled, Job
from tensoracle_producer.store import Store
from tensoracle_producer.toolchain import Toolchain, source_digest

__all__ = ["CubinCache", "compiler_digest"]

_LIMIT = 2 << 30
"""Bytes."""


class CubinCache:
    """What jobs compiled to, in the user's cache directory and where `Store` shares it.

    The key is taken over the record of the kernel, its signature, options and target, the versions of the tools, and
    the code that compiles here. A job that keeps its PTX has another, so that files without PTX serve all others.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._store = Store("cubins", _LIMIT)
        self._tools = (tuple(sorted(toolchain.versions.items())), compiler_digest())

    @property
    def warnings(self) -> list[str]:
        """What of it did not work."""
        return self._store.warnings

    def get(self, jobs: Sequence[Job]) -> list[Compiled | None]:
        """What each job compiled to before, None if that is not known."""
        keys = [self.key(job) for job in jobs]
        found = self.read(keys)
        return [found.get(key) for key in keys]

    def read(self, keys: Sequence[str]) -> dict[str, Compiled]:
        """Those of the keys that are known."""
        return {key: _decoded(content) for key, content in self._store.read(keys).items()}

    def put(self, job: Job, compiled: Compiled) -> None:
        """Remember what the job compiled to."""
        header = dataclasses.asdict(compiled)
        del header["cubin"], header["seconds"]
        if not job.keeps_ptx:
            del header["ptx"]
        self._store.write(self.key(job), json.dumps(header).encode() + b"\n" + compiled.cubin)

    def close(self) -> None:
        """Share what is new, and keep the size within its limit."""
        self._store.close()

    def key(self, job: Job) -> str:
        """The name of the job's file."""
        ptxas = job.ptxas.name  # ptxas writes the name that it was started by into cubins
        kept = ("ptx",) if job.keeps_ptx else ()
        return job.record.digest(self._tools, ptxas, job.signature, job.divisibility, job.options, job.sm, *kept)


def compiler_digest() -> str:
    """SHA-256 over the code that compiles here."""
    return source_digest(module.__file__ for module in (compiler, ptx, rebuild))


def _decoded(content: bytes) -> Compiled:
    header, _, cubin = content.partition(b"\n")
    return Compiled(cubin=cubin, seconds=0.0, **json.loads(header))
