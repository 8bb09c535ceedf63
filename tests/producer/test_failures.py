"""A kernel that does not compile: what the error says, what it leaves alone and what it leaves behind."""

from __future__ import annotations

import dataclasses
import pickle
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from helpers import kernels
from helpers.producing import compile_here, kernel_module, toolchain
from helpers.tools import assemble

from hatch_tensoracle.targets import parse_target
from tensoracle_producer import CompileError, Failure, KernelSpec, Pointer, Scalar, compile_bundle, schedule
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.compiler import Compiled, KernelError
from tensoracle_producer.schedule import Task, compile_all
from tensoracle_producer.variant import make_variants
from tensoracle_producer.workers import WorkerPool

FP32 = [Pointer("fp32")]
INT32 = [Pointer("i32")]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has compiled is compiled again."""
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(schedule, "_PATIENCE", 3600.0)  # or a slow machine would have more lines of progress


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def compile_specs(pool: WorkerPool, specs: list[KernelSpec], *targets: str) -> list[Any]:
    """Compile in the module's pool, as compile_bundle does in one of its own."""
    tasks = [
        Task(variant, target, variant.job(target, toolchain().ptxas))
        for variant in make_variants(specs)
        for target in map(parse_target, targets)
    ]
    return compile_all(tasks, pool, CubinCache(toolchain()), lambda _: None)


def failures(pool: WorkerPool, specs: list[KernelSpec], *targets: str) -> tuple[Failure, ...]:
    with pytest.raises(CompileError) as caught:
        compile_specs(pool, specs, *targets)
    return caught.value.failures


def line_of(code: str) -> int:
    """Line of the sample kernels' file."""
    lines = Path(kernels.__file__).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, start=1) if code in line)
    return number


def test_front_end_failure_names_kernel_target_line_and_cause(pool: WorkerPool) -> None:
    (failure,) = failures(pool, [KernelSpec(kernels.misspelt, name="misspelt", arguments=FP32)], "sm86")
    assert (failure.kernel, failure.target) == ("misspelt#0", "sm86")
    assert failure.cause.startswith(f"kernels.py:{line_of('undefined_name')}: ")
    assert "undefined_name is not defined" in failure.cause
    assert str(failure) == f"kernel `misspelt#0` for sm86: {failure.cause}"


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        pytest.param('tl.static_assert(False, "must be even")', "must be even", id="static_assert"),
        pytest.param("tl.store(x, tl.arange(0, 3))", "power of 2", id="a bad range"),
        pytest.param("tl.store(x, tl.load(x) + tl.loud(x))", "loud", id="a misspelt function"),
        pytest.param("with x:\n                tl.store(x, 1.0)", "AttributeError", id="a statement of plain Python"),
        pytest.param("tl.store(x, value)", "value is not defined", id="an unknown name"),
        pytest.param('raise ValueError("no")', "Raise", id="an exception"),
        pytest.param("tl.dot(x, x)", "AssertionError", id="an assertion of Triton's own"),
    ],
)
def test_place_is_the_line_that_the_author_wrote(tmp_path: Path, body: str, cause: str) -> None:
    """Decorators, comments and the docstring above it are in the author's file, not in what is compiled."""
    module = kernel_module(
        tmp_path,
        f'''
        @triton.jit()
        def kernel(x):
            """Say nothing."""

            # A comment.
            {body}
        ''',
        name="authored",
    )
    with pytest.raises(KernelError) as caught:
        compile_here(KernelSpec(module.kernel, name="kernel", arguments=FP32))
    assert str(caught.value).startswith("authored.py:11: ")
    assert cause in str(caught.value)


def test_the_place_is_the_authors_where_a_value_is_folded(pool: WorkerPool) -> None:
    spec = KernelSpec(
        kernels.typed,
        name="typed",
        arguments=[Pointer("fp32"), Scalar("i64", equal_to=1)],
        constants={"TYPE": "none"},
    )
    (failure,) = failures(pool, [spec], "sm86")
    assert failure.cause.startswith(f"kernels.py:{line_of('== TYPE')}: ")


def test_a_failure_of_one_target_names_that_target_alone(pool: WorkerPool) -> None:
    """Triton has arithmetic in this format from sm89 on."""
    spec = KernelSpec(
        kernels.convert,
        name="convert",
        arguments=[Pointer("fp32"), Pointer("fp8e4nv")],
        constants={"BLOCK": 64},
    )
    (failure,) = failures(pool, [spec], "sm86", "sm89", "sm90")
    assert failure.target == "sm86"
    assert failure.cause.startswith(f"kernels.py:{line_of('def convert')}: ")
    assert "fp8e4nv not supported in this architecture" in failure.cause


def test_a_pointer_that_is_used_as_a_tensor_descriptor_is_told_what_makes_one(pool: WorkerPool) -> None:
    (failure,) = failures(pool, [KernelSpec(kernels.undeclared, name="undeclared", arguments=FP32)], "sm86")
    assert failure.cause.startswith(f"kernels.py:{line_of('def undeclared') + 2}: ")
    assert failure.cause.endswith(": a pointer is no tensor descriptor; tl.make_tensor_descriptor makes one of it")


@pytest.mark.parametrize(("kernel", "line"), [(kernels.recursive, "recursive(x + 1)"), (kernels.circular, "_back(x)")])
def test_recursion_is_called_by_its_name(pool: WorkerPool, kernel: Any, line: str) -> None:
    """Triton says KeyError, for the code that does not exist yet."""
    (failure,) = failures(pool, [KernelSpec(kernel, name="recursive", arguments=FP32)], "sm86")
    assert failure.cause.startswith(f"kernels.py:{line_of(f'    {line}')}: ")
    assert failure.cause.endswith(": a triton.jit function cannot call itself, nor what calls it")


def test_failure_of_ptxas_shows_its_own_line(pool: WorkerPool) -> None:
    (failure,) = failures(pool, [KernelSpec(kernels.bad_assembly, name="bad", arguments=INT32)], "sm86")
    assert "Not a name of any known instruction: 'nonsense'" in failure.cause
    assert "ptxas" in failure.cause
    assert tempfile.gettempdir() not in failure.cause
    assert len(failure.cause) < 300


def test_what_the_compiler_prints_when_it_fails_is_part_of_the_cause(pool: WorkerPool) -> None:
    """Its exception says no more than that something failed."""
    (failure,) = failures(pool, [KernelSpec(kernels.bad_pack, name="bad", arguments=INT32)], "sm86")
    assert failure.cause.startswith("RuntimeError: ")
    assert "must be a multiple of the op's packed_element attribute" in failure.cause


def test_an_error_that_llvm_only_prints_is_a_failure(pool: WorkerPool) -> None:
    """Triton 3.9 leaves the instruction out and goes on, to a cubin that computes something else."""
    (failure,) = failures(pool, [KernelSpec(kernels.bad_constraint, name="bad", arguments=INT32)], "sm86")
    assert "allocate output register for constraint 'x'" in failure.cause


def test_an_abort_of_llvm_is_the_failure_of_one_compile(pool: WorkerPool) -> None:
    """The pool goes on: the compiles before and after it stand."""
    specs = [
        KernelSpec(kernels.square_all, name="before", arguments=FP32),
        KernelSpec(kernels.aborts, name="aborts", arguments=INT32),
        KernelSpec(kernels.square_all, name="after", arguments=FP32),
    ]
    (failure,) = failures(pool, specs, "sm86")
    assert failure.kernel == "aborts#0"
    assert failure.cause == (
        "the compiler's process was killed by SIGABRT\n"
        "LLVM ERROR: Invalid $ operand number in inline asm string: 'mov.u32 $0, $7;'"
    )
    assert [result.symbol for result in compile_specs(pool, [specs[0], specs[2]], "sm86")] == ["square_all"] * 2


def test_every_failure_is_reported_at_once_in_the_order_of_the_declaration(pool: WorkerPool) -> None:
    specs = [
        KernelSpec(kernels.misspelt, name="misspelt", arguments=FP32),
        KernelSpec(kernels.square_all, name="good", arguments=FP32),
        KernelSpec(kernels.aborts, name="aborts", arguments=INT32),
        KernelSpec(kernels.bad_assembly, name="assembly", arguments=INT32),
    ]
    found = failures(pool, specs, "sm86", "sm120")
    assert [(failure.kernel, failure.target) for failure in found] == [
        (kernel, target) for kernel in ("misspelt#0", "aborts#0", "assembly#0") for target in ("sm86", "sm120")
    ]


def test_the_good_ones_are_compiled_to_the_end_though_others_fail(pool: WorkerPool) -> None:
    specs = [
        KernelSpec(kernels.misspelt, name="misspelt", arguments=FP32),
        KernelSpec(kernels.square_all, name="good", arguments=FP32),
    ]
    tasks = [
        Task(variant, parse_target("sm86"), variant.job(parse_target("sm86"), toolchain().ptxas))
        for variant in make_variants(specs)
    ]
    lines: list[str] = []
    with pytest.raises(CompileError):
        compile_all(tasks, pool, CubinCache(toolchain()), lines.append)
    assert [line[:6] for line in lines] == ["[1/2] ", "[2/2] "]
    good, misspelt = sorted(line[6:] for line in lines)  # if both ended at once, in any order
    assert misspelt == "misspelt#0 sm86: failed"
    assert re.fullmatch(r"good#0 sm86: \d+ bytes, \d+\.\d\d s", good)


@pytest.mark.parametrize("says_what_runs", [True, False])
def test_progress_tells_what_is_still_running(monkeypatch: pytest.MonkeyPatch, *, says_what_runs: bool) -> None:
    """As far as the executor says it."""
    monkeypatch.setattr(schedule, "_PATIENCE", 0.01)
    (variant,) = make_variants([KernelSpec(kernels.square_all, name="slow", arguments=FP32)])
    target = parse_target("sm86")
    task = Task(variant, target, variant.job(target, toolchain().ptxas))
    future, lines = Future[Compiled](), list[str]()

    class Slow(Executor):
        """Compiles until progress has been told of it."""

        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            """Begin."""
            if says_what_runs:
                future.set_running_or_notify_cancel()
            return future

    def progress(line: str) -> None:
        lines.append(line)
        if not future.done():
            future.set_result(
                Compiled(cubin=b"code", symbol="k", ptx_target="", dynamic_shared=0, scratch=0, seconds=1.0)
            )

    compile_all([task], Slow(), CubinCache(toolchain()), progress)
    running = "slow#0 sm86 for 0 s" if says_what_runs else "1 left"
    assert lines == [f"still compiling: {running}", "[1/1] slow#0 sm86: 4 bytes, 1.00 s"]


def multiplied(stages: int) -> KernelSpec:
    """Keep two tiles of 8 KiB for every stage but one in shared memory."""
    return KernelSpec(
        kernels.matmul,
        name="matmul",
        arguments=[*[Pointer("fp16", divisible_by=16)] * 2, Pointer("fp32", divisible_by=16)],
        constants={"N": 64},
        num_stages=stages,
    )


def test_too_much_shared_memory_is_refused_for_the_targets_that_have_less(tmp_path: Path) -> None:
    """With what is needed, dynamic and static, against what the target has."""
    with pytest.raises(CompileError) as caught:
        compile_bundle([multiplied(8)], ["sm80", "sm86", "sm90", "sm120"], tmp_path / "bundle")
    assert [(failure.target, failure.cause) for failure in caught.value.failures] == [
        (target, f"{7 * 16384} bytes of dynamic and 0 of static shared memory a block; {target} has {99 * 1024}")
        for target in ("sm86", "sm120")
    ]
    assert list(tmp_path.iterdir()) == []


def test_too_much_tensor_memory_is_refused_where_accumulators_lie_there(pool: WorkerPool) -> None:
    """Triton makes a kernel of it that does nothing but trap, and finds that out when it is launched."""
    pointers = [Pointer("fp16", divisible_by=16), Pointer("fp16", divisible_by=16), Pointer("fp32", divisible_by=16)]
    spec = KernelSpec(
        kernels.matmuls,
        name="matmuls",
        arguments=[*pointers, Scalar("i32")],
        constants={"N": 256},
        num_warps=8,
        num_stages=1,
    )
    cause = (
        "needs 1024 columns of tensor memory, a multiprocessor has 512: use smaller blocks, or fewer accumulators of"
        " tl.dot"
    )
    found = failures(pool, [spec], "sm90", "sm100", "sm103")
    assert [(failure.target, failure.cause) for failure in found] == [("sm100", cause), ("sm103", cause)]
    compile_specs(pool, [dataclasses.replace(spec, constants={"N": 128})], "sm100", "sm103")


def test_more_registers_than_a_block_has_are_refused(tmp_path: Path) -> None:
    """The limit of the author's goes before the one that the assembler takes from the number of threads."""
    spec = KernelSpec(
        kernels.matmul,
        name="matmul",
        arguments=[Pointer("fp16"), Pointer("fp16"), Pointer("fp32")],
        constants={"N": 128},
        num_warps=32,
        num_stages=1,
        maxnreg=255,
    )
    with pytest.raises(CompileError, match=r"\d+ registers a thread for 1024 threads a block; a block has 65536"):
        compile_bundle([spec], ["sm86"], tmp_path / "bundle")
    bundle = compile_bundle([dataclasses.replace(spec, maxnreg=64)], ["sm86"], tmp_path / "bundle")
    (cubin,) = bundle.entries[0].cubins
    assert cubin.registers == 64


@pytest.mark.parametrize(("kernel", "name"), [(kernels.waits, "wait"), (kernels.releases, "launch_dependents")])
def test_a_dependent_launch_is_refused_rather_than_lost(pool: WorkerPool, kernel: Any, name: str) -> None:
    """In a launch of its own, waiting does nothing."""
    found = failures(pool, [KernelSpec(kernel, name="dependent", arguments=FP32)], "sm90", "sm120")
    cause = (
        f"griddepcontrol.{name} needs launches that depend on those before them (launch_pdl), which the launcher does"
        " not make: leave out gdc_wait and gdc_launch_dependents"
    )
    assert [(failure.target, failure.cause) for failure in found] == [("sm90", cause), ("sm120", cause)]


def test_scratch_memory_is_refused_for_the_targets_that_need_it(tmp_path: Path) -> None:
    """One and the same kernel needs none where tensor descriptors are taken apart into pointers."""
    spec = KernelSpec(kernels.described, name="described", arguments=[Pointer("fp32", divisible_by=16), Scalar("i32")])
    with pytest.raises(CompileError) as caught:
        compile_bundle([spec], ["sm86", "sm90", "sm120"], tmp_path / "bundle")
    assert [(failure.kernel, failure.target, failure.cause) for failure in caught.value.failures] == [
        ("described#0", target, "needs 128 bytes of scratch memory") for target in ("sm90", "sm120")
    ]
    compile_bundle([spec], ["sm86"], tmp_path / "bundle")


PTX = """
.version 8.0
.target {target}
.address_size 64
.visible .entry {symbol}({parameters})
.reqntid 128, 1, 1
{{ ret; }}
"""


def assembled(directory: Path, *, target: str = "sm_86", symbol: str = "square_all", parameters: int = 3) -> bytes:
    """A cubin that does nothing, with so many pointers as parameters."""
    names = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    return assemble(PTX.format(target=target, symbol=symbol, parameters=names), directory, target=target).read_bytes()


@pytest.mark.parametrize(
    ("made", "fields", "cause"),
    [
        pytest.param(
            {"parameters": 4}, {}, "kernel parameters (offset, size) 0+8 8+8 16+8 24+8; the declared", id="more"
        ),
        pytest.param({"parameters": 2}, {}, "kernel parameters (offset, size) 0+8 8+8; the declared", id="fewer"),
        pytest.param({"parameters": 0}, {}, "kernel parameters (offset, size) ", id="none"),
        pytest.param({"target": "sm_89"}, {}, "the ELF header says sm89", id="another SM"),
        pytest.param({}, {"ptx_target": "sm_89"}, "Triton made PTX for sm_89", id="PTX for another SM"),
        pytest.param({"symbol": "other"}, {}, "the cubin has no entry function `square_all`", id="another symbol"),
        pytest.param({}, {"cubin": b"nonsense"}, "the cubin has no entry function `square_all`: ", id="no cubin"),
        pytest.param({}, {"scratch": 256}, "needs 256 bytes of scratch memory", id="scratch"),
        pytest.param({}, {"dynamic_shared": 200_000}, "200000 bytes of dynamic and 0 of static shared", id="shared"),
    ],
)
def test_what_the_compiler_made_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], fields: dict[str, Any], cause: str
) -> None:
    """Another release of it may append arguments or want memory of which we know nothing."""
    compiled = Compiled(
        **{
            "cubin": assembled(tmp_path, **made),
            "symbol": "square_all",
            "ptx_target": "sm_86",
            "dynamic_shared": 0,
            "scratch": 0,
            "seconds": 0.0,
            **fields,
        }
    )
    monkeypatch.setattr("tensoracle_producer.produce.compile_all", lambda *_: [compiled])
    spec = KernelSpec(kernels.square_all, name="square", arguments=FP32)
    with pytest.raises(CompileError) as caught:
        compile_bundle([spec], ["sm86"], tmp_path / "bundle")
    assert str(caught.value).startswith(f"kernel `square#0` for sm86: {cause}")
    assert not (tmp_path / "bundle").exists()


def test_what_is_refused_after_the_compile_is_reported_together(tmp_path: Path) -> None:
    specs = [
        multiplied(8),
        KernelSpec(kernels.described, name="described", arguments=[Pointer("fp32", divisible_by=16), Scalar("i32")]),
    ]
    with pytest.raises(CompileError) as caught:
        compile_bundle(specs, ["sm120"], tmp_path / "bundle")
    assert [failure.kernel for failure in caught.value.failures] == ["matmul#0", "described#0"]
    assert str(caught.value) == "\n".join(map(str, caught.value.failures))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary file, whatever way a compile ends, and nothing where the bundle was to be."""
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("HOME", str(home))
    specs = [
        KernelSpec(kernels.square_all, name="good", arguments=FP32),
        KernelSpec(kernels.misspelt, name="misspelt", arguments=FP32),
        KernelSpec(kernels.bad_assembly, name="assembly", arguments=INT32),
        KernelSpec(kernels.bad_constraint, name="constraint", arguments=INT32),
        KernelSpec(kernels.aborts, name="aborts", arguments=INT32),
    ]
    with pytest.raises(CompileError) as caught:
        compile_bundle(specs, ["sm86"], tmp_path / "bundle")
    assert len(caught.value.failures) == 4
    assert list(temporary.iterdir()) == []
    assert list(home.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "temporary"]


def test_error_can_be_pickled() -> None:
    error = CompileError((Failure(kernel="k#0", target="sm86", cause="no"),), remedy="Mend it.")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (copy.failures, str(copy), copy.remedy) == (error.failures, str(error), "Mend it.")
