"""Compiles one record for one target: what a worker does."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatch_tensoracle.errors import BuildError
from tensoracle_producer.ptx import PtxDiffersError, portable_ptx
from tensoracle_producer.rebuild import rebuild
from tensoracle_producer.record import KernelRecord

__all__ = ["Compiled", "Job", "KernelError", "compile_job"]

_TENSOR_MEMORY = 512
"""Columns of tensor memory that a multiprocessor has, where it has any (PTX ISA 8.6, section Tensor Memory)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kernel variant for one target."""

    record: KernelRecord
    signature: tuple[tuple[str, str], ...]
    """Every parameter of the function in order: its Triton type, or `constexpr`."""
    divisibility: tuple[tuple[str, int], ...]
    """Parameter -> divisor that the compiler may assume."""
    options: tuple[tuple[str, bool | int | str | None], ...]
    sm: int
    ptxas: Path
    keeps_ptx: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What Triton made of a job, unchecked."""

    cubin: bytes
    symbol: str
    ptx_target: str
    """What the PTX was for, such as `sm_90a`."""
    dynamic_shared: int
    scratch: int
    """Bytes of scratch memory that the kernel wants, of any kind."""
    seconds: float
    ptx: str = ""
    """What drivers can compile, if the job keeps it."""

    def content(self, *, is_ptx: bool) -> bytes:
        """The bytes of the file that the bundle gets."""
        return self.ptx.encode() if is_ptx else self.cubin


class KernelError(Exception):
    """A kernel does not compile; the message is the cause."""


def compile_job(job: Job) -> Compiled:
    """Compile. Raises KernelError with the real cause; needs no driver, no GPU and no torch."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    start = time.perf_counter()
    with _settings(job.ptxas):
        try:
            kernel, constants = rebuild(job.record)
            names = [name for name, _ in job.signature]
            source = ASTSource(
                kernel,
                signature=dict(job.signature),
                constexprs={(names.index(name),): value for name, value in constants.items()},
                attrs={(names.index(name),): [["tt.divisibility", divisor]] for name, divisor in job.divisibility},
            )
            options = {name: value for name, value in job.options if value is not None}
            compiled = triton.compile(source, target=GPUTarget("cuda", job.sm, 32), options=options)
        except Exception as error:
            raise KernelError(_cause(error, job.record)) from error
        result = _read(compiled, job)
        return dataclasses.replace(result, seconds=time.perf_counter() - start)


def _read(compiled: Any, job: Job) -> Compiled:
    metadata = compiled.metadata
    for name, value in job.options:
        if value is not None and getattr(metadata, name, None) != value:
            message = f"Triton took option {name}={value!r} as {getattr(metadata, name, 'unknown')!r}"
            raise KernelError(message)
    columns = getattr(metadata, "tmem_size", None) or 0
    if columns > _TENSOR_MEMORY:  # its PTX is a bare trap then
        message = (
            f"needs {columns} columns of tensor memory, a multiprocessor has {_TENSOR_MEMORY}: use smaller blocks, or"
            " fewer accumulators of tl.dot"
        )
        raise KernelError(message)
    ptx = compiled.asm["ptx"]
    if dependence := re.search(r"\bgriddepcontrol\.\w+", ptx):
        message = (
            f"{dependence[0]} needs launches that depend on those before them (launch_pdl), which the launcher does not"
            " make: leave out gdc_wait and gdc_launch_dependents"
        )
        raise KernelError(message)
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    return Compiled(
        cubin=compiled.asm["cubin"],
        symbol=metadata.name,
        ptx_target=target[1] if target else "",
        dynamic_shared=metadata.shared,
        scratch=metadata.global_scratch_size + metadata.profile_scratch_size,
        seconds=0.0,
        ptx=_portable(ptx, job) if job.keeps_ptx else "",
    )


def _portable(ptx: str, job: Job) -> str:
    try:
        return portable_ptx(ptx, job.sm, job.ptxas, is_fused=bool(dict(job.options)["enable_fp_fusion"]))
    except (BuildError, PtxDiffersError) as error:
        raise KernelError(str(error)) from error


@contextlib.contextmanager
def _settings(ptxas: Path) -> Iterator[None]:
    """Triton's settings come from the environment: give it ours, with a cache directory that ends with the compile."""
    with tempfile.TemporaryDirectory(prefix="tensoracle-") as directory:
        settings = {
            "TRITON_PTXAS_PATH": str(ptxas),
            "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas),
            "TRITON_CACHE_DIR": directory,
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",  # only silences 3.9: the option is always given
            # Line information would leak paths, change bytes with the directory and add about 40%.
            "TRITON_DISABLE_LINE_INFO": "1",
            "TMPDIR": directory,  # where Triton's ptxas step leaves files when it fails
        }
        before = {name: os.environ.get(name) for name in settings}
        temporary, tempfile.tempdir = tempfile.tempdir, directory
        os.environ.update(settings)
        try:
            yield
        finally:
            tempfile.tempdir = temporary
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _cause(error: BaseException, record: KernelRecord) -> str:
    """The deepest cause, with the line of the author's file that it belongs to."""
    from triton.compiler.errors import CompilationError

    place, deepest = "", error
    while True:
        if isinstance(deepest, CompilationError) and deepest.node is not None and deepest.src is not None:
            place = f"{record.locate(deepest.src, deepest.node.lineno)}: "
        if deepest.__cause__ is None:
            break
        deepest = deepest.__cause__
    if isinstance(deepest, CompilationError):
        message = place + str(deepest.error_message or deepest)
        if re.search("'tensor' object has no attribute '(load|store)'", message):
            message += ": a pointer is no tensor descriptor; tl.make_tensor_descriptor makes one of it"
        if any(f"KeyError('{key.replace(':', '.')}__" in message for key, _ in record.functions):
            message += ": a triton.jit function cannot call itself, nor what calls it"
        return message
    if type(deepest).__name__ == "PTXASError":
        lines = [line for line in str(deepest).splitlines() if line.startswith("ptxas") and "info" not in line]
        shown = (re.sub(r"^ptxas \S+\.ptx, ", "ptxas ", line) for line in lines)  # the file has gone by now
        return place + ("; ".join(shown) or str(deepest).partition("\n")[0])
    return f"{place}{type(deepest).__name__}: {deepest}".rstrip(": ")
