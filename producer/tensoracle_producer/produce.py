"""From specs to a bundle directory: by `compile_bundle` for users, by `produce` for the hook."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hatch_tensoracle.bundle import Bundle, Code, Cubin, Entry, Ptx, configuration_of
from hatch_tensoracle.code_checks import check_code
from hatch_tensoracle.elf import ElfError, read_cubin
from hatch_tensoracle.ptx import PtxError, read_ptx
from hatch_tensoracle.targets import DEFAULT_TARGETS, Target, parse_ptx_target, parse_target
from hatch_tensoracle.tuning import Configuration, Tuning, check_tuning
from tensoracle_producer.cache import CubinCache, compiler_digest
from tensoracle_producer.compiler import Compiled, compile_job
from tensoracle_producer.elsewhere import compile_elsewhere
from tensoracle_producer.errors import CompileError, Failure
from tensoracle_producer.render import write_bundle
from tensoracle_producer.replace import replaced_directory
from tensoracle_producer.schedule import Task, compile_all
from tensoracle_producer.spec import KernelSpec
from tensoracle_producer.toolchain import Toolchain, find_toolchain
from tensoracle_producer.variant import Variant, make_variants
from tensoracle_producer.workers import WorkerPool

__all__ = ["Production", "compile_bundle", "produce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """A bundle that was written."""

    bundle: Bundle
    keys: Mapping[str, str]
    """The key in the cubin cache of every file of code."""


def compile_bundle(  # noqa: PLR0913 - the options
    specs: Iterable[KernelSpec],
    targets: Sequence[str] = DEFAULT_TARGETS,
    directory: str | os.PathLike[str] = "bundle",
    *,
    ptx: str | None = None,
    ptxas: str | os.PathLike[str] | None = None,
    tuning: Sequence[Tuning] = (),
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
    executor: Executor | None = None,
) -> Bundle:
    """Compile every spec for every target and write `directory`: bundle.json, cubins/, ptx/ and the C++ embedding them.

    `targets` are names such as `sm86`; `ptx` is one, `sm89` or older, for which PTX is kept besides; `ptxas` is
    another assembler than that of nvidia-cuda-nvcc-cu12; `tuning` is what was measured of the configurations;
    `progress` is given one line at a time. Kernels are compiled in `jobs` worker processes, else one a core, without
    GPU, driver or torch, or where the `executor` brings them, which is not shut down; those that the user's cache
    directory remembers, by content, are not compiled again. The directory appears whole or not at all; one that exists
    is replaced if it is empty or holds a bundle.

    Raises CompileError naming every kernel and target that failed, CaptureError for a kernel that depends on objects
    which cannot be recorded, ToolchainError without Triton or ptxas, ConfigurationError for tuning of other kernels or
    configurations, TypeError or ValueError for specs or targets that do not fit, FileExistsError for a directory of
    something else.
    """
    named = Path(ptxas).absolute() if ptxas is not None else None  # workers run elsewhere
    return produce(
        specs,
        targets,
        Path(directory),
        ptx=ptx,
        toolchain=find_toolchain(named),
        ptxas=named,
        tuning=tuning,
        jobs=jobs,
        progress=progress or (lambda _line: None),
        executor=executor,
    ).bundle


def produce(  # noqa: PLR0913 - the options
    specs: Iterable[KernelSpec],
    targets: Sequence[str],
    directory: Path,
    *,
    ptx: str | None,
    toolchain: Toolchain,
    ptxas: Path | None = None,
    tuning: Sequence[Tuning],
    jobs: int | None,
    progress: Callable[[str], None],
    executor: Executor | None = None,
) -> Production:
    """Do what `compile_bundle` does, with the tools that are given."""
    goals = [(target, False) for target in _targets(targets)] + [(target, True) for target in _ptx_targets(ptx)]
    variants = make_variants(specs)
    check_tuning(tuning, _configurations(variants))
    tasks = [
        Task(variant, target, variant.job(target, toolchain.ptxas, keeps_ptx=keeps_ptx))
        for variant in variants
        for target, keeps_ptx in goals
    ]
    cache = CubinCache(toolchain)
    elsewhere = partial(compile_elsewhere, ptxas=ptxas, versions=toolchain.versions, digest=compiler_digest())
    with (
        # First, as nothing is interrupted inside of it: the directory does not stay half removed.
        WorkerPool(min(len(tasks), jobs or _cores())) if executor is None else nullcontext(executor) as pool,
        replaced_directory(directory) as fresh,
    ):
        compiled = compile_all(tasks, pool, cache, progress, compile_job if executor is None else elsewhere)
        files = {
            _file(task): result.content(is_ptx=task.job.keeps_ptx) for task, result in zip(tasks, compiled, strict=True)
        }
        entries = _entries(tasks, compiled)
        bundle = Bundle(
            entries=entries,
            targets=tuple(target.name for target, keeps_ptx in goals if not keeps_ptx),
            tools=toolchain.versions,
            minimum_driver=toolchain.minimum_driver(entry.ptx.version for entry in entries if entry.ptx is not None),
            ptx_target=ptx,
            tuning=tuple(tuning),
        ).sealed()
        _check(bundle, files)
        write_bundle(bundle, bundle.to_json(), files, fresh)
    return Production(bundle=bundle, keys={_file(task): cache.key(task.job) for task in tasks})


def _targets(names: Iterable[str]) -> list[Target]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        message = f"targets must be a list of names such as ['sm86'], not {names!r}"
        raise TypeError(message)
    names = list(dict.fromkeys(names))
    for i, name in enumerate(names):
        if not isinstance(name, str):
            message = f"targets[{i}] must be a name such as 'sm86', not {name!r}"
            raise TypeError(message)
    if not names:
        message = "targets must name at least one GPU generation, such as sm86"
        raise ValueError(message)
    return [parse_target(name) for name in names]


def _ptx_targets(name: str | None) -> list[Target]:
    """None or one."""
    if name is not None and not isinstance(name, str):
        message = f"ptx must be the name of a target such as 'sm89', not {name!r}"
        raise TypeError(message)
    return [parse_ptx_target(name)] if name is not None else []


def _configurations(variants: Iterable[Variant]) -> dict[str, list[Configuration]]:
    """Those of every kernel, as the bundle will have them."""
    found: dict[str, list[Configuration]] = {}
    for variant in variants:
        if variant.number == 0:
            described = configuration_of(variant.constants, variant.spec.options)
            found.setdefault(variant.spec.name, []).append(described)
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _file(task: Task) -> str:
    directory, suffix = ("ptx", "ptx") if task.job.keeps_ptx else ("cubins", "cubin")
    return f"{directory}/{task.variant.file_stem}.{task.target.name}.{suffix}"


def _entries(tasks: Sequence[Task], compiled: Sequence[Compiled]) -> tuple[Entry, ...]:
    """One entry a variant, with what was compiled of it."""
    symbols: dict[str, str] = {}
    codes: dict[str, list[Code]] = {}
    for task, result in zip(tasks, compiled, strict=True):
        label = task.variant.label
        if symbols.setdefault(label, result.symbol) != result.symbol:
            raise _failed(task, f"its entry function is `{result.symbol}`, for other targets `{symbols[label]}`")
        codes.setdefault(label, []).append(_ptx(task, result) if task.job.keeps_ptx else _cubin(task, result))
    return tuple(
        variant.entry(
            symbols[label],
            tuple(code for code in codes[label] if isinstance(code, Cubin)),
            next((code for code in codes[label] if isinstance(code, Ptx)), None),
        )
        for label, variant in {task.variant.label: task.variant for task in tasks}.items()
    )


def _cubin(task: Task, result: Compiled) -> Cubin:
    """The manifest's record of a cubin, read from the cubin itself wherever it tells."""
    if result.ptx_target.removeprefix("sm_").rstrip("a") != str(task.target.sm):
        raise _failed(task, f"Triton made PTX for {result.ptx_target}")
    try:
        kernels = {kernel.symbol: kernel for kernel in read_cubin(result.cubin).kernels}
        kernel = kernels[result.symbol]
    except (ElfError, KeyError) as error:
        raise _failed(task, f"the cubin has no entry function `{result.symbol}`: {error}") from error
    return Cubin(
        target=task.target.name,
        file=_file(task),
        sha256=hashlib.sha256(result.cubin).hexdigest(),
        size=len(result.cubin),
        architecture_specific=result.ptx_target.endswith("a"),
        registers=kernel.registers,
        local_bytes=kernel.local_bytes,
        static_shared=kernel.static_shared,
        dynamic_shared=result.dynamic_shared,
        scratch=result.scratch,
        threads=kernel.threads,
    )


def _ptx(task: Task, result: Compiled) -> Ptx:
    """The manifest's record of PTX, read from the text itself wherever it tells."""
    content = result.content(is_ptx=True)
    try:
        image = read_ptx(content)
    except PtxError as error:
        raise _failed(task, f"the PTX {error}") from error
    return Ptx(
        target=task.target.name,
        file=_file(task),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        version=image.version,
        dynamic_shared=result.dynamic_shared,
        scratch=result.scratch,
        threads=next((entry.threads for entry in image.entries if entry.symbol == result.symbol), 0),
    )


def _failed(task: Task, cause: str) -> CompileError:
    return CompileError((Failure(kernel=task.variant.label, target=task.goal, cause=cause),))


def _check(bundle: Bundle, files: Mapping[str, bytes]) -> None:
    """Compare all code with what was declared, by the checks that inspection makes."""
    failures = tuple(
        Failure(kernel=entry.label, target=code.label, cause=defect.cause)
        for entry, code in bundle.codes()
        for defect in check_code(entry, code, files[code.file], "")
    )
    if failures:
        raise CompileError(failures)
