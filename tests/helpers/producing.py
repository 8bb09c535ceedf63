"""Kernels made of text, and compiles in this process."""

from __future__ import annotations

import importlib.util
import textwrap
from functools import cache
from pathlib import Path
from types import ModuleType

from hatch_tensoracle.targets import parse_target
from tensoracle_producer import KernelSpec
from tensoracle_producer.compiler import Compiled, compile_job
from tensoracle_producer.record import KernelRecord
from tensoracle_producer.toolchain import Toolchain, find_toolchain
from tensoracle_producer.variant import make_variants

__all__ = ["compile_here", "kernel_module", "record_of", "toolchain"]

_HEADER = "import triton\nimport triton.language as tl\n\n\n"


def kernel_module(directory: Path, source: str, *, name: str = "kernels") -> ModuleType:
    """Write a kernels file with the usual imports on top and import it by path, as the hook does."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.py"
    file.write_text(_HEADER + textwrap.dedent(source), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record_of(spec: KernelSpec) -> KernelRecord:
    """Capture the spec's kernel."""
    (variant,) = make_variants([spec])
    return variant.record


def compile_here(spec: KernelSpec, *, debug: bool = False) -> Compiled:
    """Compile for sm86 in this process what a worker would compile."""
    (variant,) = make_variants([spec])
    job = variant.job(parse_target("sm86"), toolchain().ptxas)
    if debug:
        object.__setattr__(job, "options", (*job.options, ("debug", True)))
    return compile_job(job)


@cache
def toolchain() -> Toolchain:
    """The tools of this environment."""
    return find_toolchain()
