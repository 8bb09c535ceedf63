"""From specs to a bundle directory: the producer's one entry point."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from hatch_tensoracle.bundle import Bundle, Cubin, Entry, configuration_of
from hatch_tensoracle.cubin_checks import check_cubin
from hatch_tensoracle.elf import ElfError, read_cubin
from hatch_tensoracle.targets import DEFAULT_TARGETS, Target, parse_target
from hatch_tensoracle.tuning import Configuration, Tuning, check_tuning
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.compiler import Compiled
from tensoracle_producer.errors import CompileError, Failure
from tensoracle_producer.render import render_bundle
from tensoracle_producer.replace import replaced_directory
from tensoracle_producer.schedule import Task, compile_all
from tensoracle_producer.spec import KernelSpec
from tensoracle_producer.toolchain import find_toolchain
from tensoracle_producer.variant import Variant, make_variants
from tensoracle_producer.workers import WorkerPool

__all__ = ["compile_bundle"]


def compile_bundle(  # noqa: PLR0913 - what there is to choose
    specs: Iterable[KernelSpec],
    targets: Sequence[str] = DEFAULT_TARGETS,
    directory: str | os.PathLike[str] = "bundle",
    *,
    ptxas: str | os.PathLike[str] | None = None,
    tuning: Sequence[Tuning] = (),
    progress: Callable[[str], None] | None = None,
) -> Bundle:
    """Compile every spec for every target and write `directory`: bundle.json, cubins/ and the C++ that embeds them.

    `targets` are names such as `sm86`; `ptxas` is another assembler than that of nvidia-cuda-nvcc-cu12; `tuning` is
    what was measured of the configurations; `progress` is given one line at a time. Kernels are compiled in worker
    processes, one a core, without GPU, driver or torch; those that the user's cache directory remembers, by content,
    are not compiled again. The directory appears whole or not at all; one that exists is replaced if it is empty or
    holds a bundle.

    Raises CompileError naming every kernel and target that failed, CaptureError for a kernel that depends on objects
    which cannot be recorded, ToolchainError without Triton or ptxas, ConfigurationError for tuning of other kernels or
    configurations, TypeError or ValueError for specs or targets that do not fit, FileExistsError for a directory of
    something else.
    """
    chosen = _targets(targets)
    variants = make_variants(specs)
    check_tuning(tuning, _configurations(variants))
    toolchain = find_toolchain(Path(ptxas) if ptxas is not None else None)
    tasks = [Task(variant, target, variant.job(target, toolchain.ptxas)) for variant in variants for target in chosen]
    with replaced_directory(Path(directory)) as fresh, WorkerPool(min(len(tasks), _cores())) as pool:
        compiled = compile_all(tasks, pool, CubinCache(toolchain), progress or (lambda _line: None))
        files = {_file(task): result.cubin for task, result in zip(tasks, compiled, strict=True)}
        bundle = Bundle(
            entries=_entries(tasks, compiled),
            targets=tuple(target.name for target in chosen),
            tools=toolchain.versions,
            minimum_driver=toolchain.minimum_driver,
            tuning=tuple(tuning),
        ).sealed()
        _check(bundle, files)
        _write(bundle, files, fresh)
    return bundle


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
    return f"cubins/{task.variant.file_stem}.{task.target.name}.cubin"


def _entries(tasks: Sequence[Task], compiled: Sequence[Compiled]) -> tuple[Entry, ...]:
    """One entry a variant, with what was compiled of it."""
    symbols: dict[str, str] = {}
    cubins: dict[str, list[Cubin]] = {}
    for task, result in zip(tasks, compiled, strict=True):
        label = task.variant.label
        if symbols.setdefault(label, result.symbol) != result.symbol:
            raise _failed(task, f"its entry function is `{result.symbol}`, for other targets `{symbols[label]}`")
        cubins.setdefault(label, []).append(_cubin(task, result))
    variants = {task.variant.label: task.variant for task in tasks}
    return tuple(variant.entry(symbols[label], tuple(cubins[label])) for label, variant in variants.items())


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


def _failed(task: Task, cause: str) -> CompileError:
    return CompileError((Failure(kernel=task.variant.label, target=task.target.name, cause=cause),))


def _check(bundle: Bundle, files: Mapping[str, bytes]) -> None:
    """Compare every cubin with what was declared, by the checks that inspection makes."""
    failures = tuple(
        Failure(kernel=entry.label, target=cubin.target, cause=defect.cause)
        for entry, cubin in bundle.cubins()
        for defect in check_cubin(entry, cubin, files[cubin.file], "")
    )
    if failures:
        raise CompileError(failures)


def _write(bundle: Bundle, files: Mapping[str, bytes], directory: Path) -> None:
    (directory / "cubins").mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    (directory / "bundle.json").write_bytes(bundle.to_json())
    for name, text in render_bundle(bundle).items():
        (directory / name).write_text(text, encoding="utf-8")
