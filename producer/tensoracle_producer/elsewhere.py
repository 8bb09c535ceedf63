"""Compiles one job where an executor of the caller's has brought it: another thread, process or machine."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
from collections.abc import Mapping
from multiprocessing.util import Finalize
from pathlib import Path

from tensoracle_producer.cache import compiler_digest
from tensoracle_producer.compiler import Compiled, Job, KernelError, compile_job
from tensoracle_producer.toolchain import find_toolchain
from tensoracle_producer.workers import WorkerPool

__all__ = ["compile_elsewhere"]

_pools: dict[int, WorkerPool] = {}  # by process: a forked one has none of its parent's threads
_lock = threading.Lock()


def compile_elsewhere(job: Job, ptxas: Path | None, versions: Mapping[str, str], digest: str) -> Compiled:
    """Compile with the tools that are here, in a process of its own: LLVM may end it, and Triton reads the environment.

    `ptxas` is the assembler that the caller named, `versions` those of its tools, `digest` its `compiler_digest`, since
    what comes back goes into its cache. Raises KernelError, as `compile_job` does, also if there are other tools or
    another release of this package here; ToolchainError if there are no tools.
    """
    if compiler_digest() != digest:
        message = f"the executor's worker on {socket.gethostname()} has another release of hatch-tensoracle"
        raise KernelError(message)
    toolchain = find_toolchain(ptxas)
    for tool, version in versions.items():
        if (found := toolchain.versions.get(tool)) != version:
            message = f"the executor's worker on {socket.gethostname()} has {tool} {found}, this build has {version}"
            raise KernelError(message)
    return _pool().submit(compile_job, dataclasses.replace(job, ptxas=toolchain.ptxas)).result()


def _pool() -> WorkerPool:
    with _lock:
        pool = _pools.get(os.getpid())
        if pool is None:
            pool = _pools[os.getpid()] = WorkerPool(len(os.sched_getaffinity(0)))
            # A worker of multiprocessing runs these when it ends, but nothing of atexit.
            Finalize(None, pool.shutdown, kwargs={"cancel_futures": True}, exitpriority=100)
        return pool
