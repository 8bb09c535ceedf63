"""The producer's one entry point, from real specs through real Triton and ptxas to a bundle that inspection accepts."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import kernels
from helpers.producing import compile_here, kernel_module
from helpers.projects import tree
from helpers.tools import PTXAS, PTXAS_13, SITE, cuobjdump, run, tool

from hatch_tensoracle import Bundle, inspect_bundle
from hatch_tensoracle.bundle import ELEMENT_SIZES, SCALAR_SIZES, Constant, Entry
from hatch_tensoracle.elf import read_cubin
from hatch_tensoracle.targets import TARGETS
from tensoracle_producer import (
    CompileError,
    Config,
    KernelSpec,
    Pointer,
    Scalar,
    ToolchainError,
    compile_bundle,
    schedule,
)

COPY = KernelSpec(
    kernels.copy,
    name="copy",
    arguments=[Pointer("fp32"), Pointer("fp32"), Scalar("i32")],
    constants={"BLOCK": 64},
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has compiled is compiled again."""
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


def parameter_sizes(directory: Path, entry: Entry) -> list[int]:
    """Sizes of the parameters that the entry's first cubin has."""
    (kernel,) = read_cubin((directory / entry.cubins[0].file).read_bytes()).kernels
    return [size for _, size in kernel.parameters]


def by_kernel(bundle: Bundle) -> dict[str, Entry]:
    return {entry.kernel: entry for entry in bundle.entries}


# Compiles for every target, in a process where loading torch or the driver leaves a mark.
SCRIPT = """
import sys
from pathlib import Path

from helpers.kernels import copy
from hatch_tensoracle.targets import TARGETS
from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle

arguments = [Pointer("fp32"), Pointer("fp32"), Scalar("i32")]
specs = [KernelSpec(copy, name="copy", arguments=arguments, constants={"BLOCK": 64})]
compile_bundle(specs, list(TARGETS), sys.argv[1])
assert "torch" not in sys.modules
assert "libcuda" not in Path("/proc/self/maps").read_text()
"""


def test_every_target_compiles_without_torch_and_without_a_driver(tmp_path: Path) -> None:
    """Here and in the workers: a torch that breaks and a driver that aborts both lie first on the path."""
    torch = tmp_path / "path" / "torch" / "__init__.py"
    torch.parent.mkdir(parents=True)
    torch.write_text(f"open({str(tmp_path / 'torch was imported')!r}, 'w').close()\nraise RuntimeError('broken')\n")
    driver = tmp_path / "lib" / "libcuda.so.1"
    driver.parent.mkdir()
    (tmp_path / "driver.c").write_text("#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }\n")
    run(tool("gcc"), "-shared", "-fPIC", "-o", driver, tmp_path / "driver.c")
    environment = {
        "PYTHONPATH": os.pathsep.join([str(torch.parents[1]), str(Path(__file__).parents[1])]),
        "LD_LIBRARY_PATH": str(driver.parent),
        "CUDA_VISIBLE_DEVICES": "",
    }
    run(sys.executable, "-c", SCRIPT, tmp_path / "bundle", env=environment)

    bundle = inspect_bundle(tmp_path / "bundle")
    assert bundle.targets == tuple(TARGETS)
    seen = {
        cubin.target: read_cubin((tmp_path / "bundle" / cubin.file).read_bytes()).sm for _, cubin in bundle.cubins()
    }
    assert seen == {name: target.sm for name, target in TARGETS.items()}
    assert {cubin.target for _, cubin in bundle.cubins() if cubin.architecture_specific} == {
        "sm90",
        "sm100",
        "sm103",
        "sm120",
        "sm121",
    }
    assert not (tmp_path / "torch was imported").exists()


@pytest.fixture(scope="module")
def of_every_type(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel for every scalar type and one for every element type."""
    directory = tmp_path_factory.mktemp("types") / "bundle"
    scalars = [
        KernelSpec(
            kernels.fill,
            name=f"fill_{type_}",
            arguments=[Pointer(type_), Scalar(type_), Scalar("i32")],
            constants={"BLOCK": 64},
        )
        for type_ in SCALAR_SIZES
    ]
    elements = [
        KernelSpec(
            kernels.copy,
            name=f"copy_{element}",
            arguments=[Pointer(element), Pointer(element), Scalar("i32")],
            constants={"BLOCK": 64},
        )
        for element in ELEMENT_SIZES
    ]
    compile_bundle([*scalars, *elements], ["sm89"], directory)
    return directory


@pytest.mark.parametrize(("type_", "size"), SCALAR_SIZES.items())
def test_scalar_is_a_parameter_of_its_own_size(of_every_type: Path, type_: str, size: int) -> None:
    assert parameter_sizes(of_every_type, by_kernel(inspect_bundle(of_every_type))[f"fill_{type_}"]) == [
        8,
        size,
        4,
        8,
        8,
    ]


def many_arguments(directory: Path, count: int) -> KernelSpec:
    """A kernel of so many arguments: a pointer, and numbers of every width in turn."""
    names = [f"a{i}" for i in range(1, count)]
    body = f"    tl.store(target, ({' + '.join(f'{name}.to(tl.float32)' for name in names)}))"
    module = kernel_module(directory, f"@triton.jit\ndef many(target, {', '.join(names)}):\n{body}\n")
    widths = itertools.islice(itertools.cycle(SCALAR_SIZES), count - 1)
    return KernelSpec(module.many, name="many", arguments=[Pointer("fp32"), *map(Scalar, widths)])


def test_as_many_arguments_as_the_launcher_takes_are_packed_by_their_sizes(tmp_path: Path) -> None:
    spec = many_arguments(tmp_path, 64)
    bundle = compile_bundle([spec], ["sm86", "sm120"], tmp_path / "bundle")  # which compares offsets and sizes
    (entry,) = bundle.entries
    expected = [8, *(SCALAR_SIZES[argument.type] for argument in entry.arguments[1:]), 8, 8]
    assert parameter_sizes(tmp_path / "bundle", entry) == expected


def test_more_arguments_than_the_launcher_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`many`: arguments has 65 entries; the launcher takes at most 64"):
        many_arguments(tmp_path, 65)


def test_every_element_type_that_cuda_has_compiles(of_every_type: Path) -> None:
    bundle = inspect_bundle(of_every_type)
    assert {entry.arguments[0].type for entry in bundle.entries if entry.kernel.startswith("copy")} == {
        f"*{element}"
        for element in (
            *("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
            *("fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e5", "fp8e4b15"),
        )
    }


@pytest.fixture(scope="module")
def assorted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Path]:
    """Kernels with variants, signatures and constants of every kind."""
    from triton import language as tl

    directory = tmp_path_factory.mktemp("assorted") / "bundle"
    pointers = [Pointer("fp32"), Pointer("fp32")]
    chosen = {"SCALE": 2.5, "MODE": "double", "TYPE": tl.float16, "ROUND": True, "F": kernels.square}
    plain = {"SCALE": None, "MODE": "", "TYPE": tl.bfloat16, "ROUND": False, "F": tl.exp}
    specs = [
        KernelSpec(
            kernels.strided, name="strided", arguments=[*pointers, Scalar("i32", equal_to=1)], constants={"BLOCK": 64}
        ),
        KernelSpec(
            kernels.strided,
            name="strided",
            arguments=[*[Pointer("fp32", divisible_by=16)] * 2, Scalar("i32", divisible_by=4)],
            constants={"BLOCK": 64},
        ),
        KernelSpec(kernels.strided, name="strided", arguments=[*pointers, Scalar("i32")], constants={"BLOCK": 64}),
        COPY,
        KernelSpec(
            kernels.copy,
            name="copy_fp16",
            arguments=[Pointer("fp16"), Pointer("fp16"), Scalar("i64")],
            constants={"BLOCK": 128},
        ),
        KernelSpec(kernels.choose, name="chosen", arguments=[Pointer("fp32")], constants=chosen),
        KernelSpec(kernels.choose, name="plain", arguments=[Pointer("fp32")], constants=plain),
        KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32")], num_warps=2),
        KernelSpec(
            kernels.shaped,
            name="shaped",
            arguments=[Pointer("fp32")],
            constants={"SHAPE": (16, (1, None, "it's"), tl.float16)},
        ),
        KernelSpec(kernels.nothing, name="nothing", arguments=[], constants={"N": 1}),
    ]
    return compile_bundle(specs, ["sm86", "sm120"], directory), directory


def test_what_is_returned_is_what_inspection_reads(assorted: tuple[Bundle, Path]) -> None:
    bundle, directory = assorted
    assert inspect_bundle(directory) == bundle


def test_bundle_holds_what_it_names_and_nothing_else(assorted: tuple[Bundle, Path]) -> None:
    bundle, directory = assorted
    cubins = {cubin.file for _, cubin in bundle.cubins()}
    assert len(cubins) == len(bundle.entries) * 2
    assert tree(directory).keys() == {"bundle.json", "bundle.cpp", "cubins_000.cpp", *cubins}


def test_specs_of_one_name_are_variants_in_their_order(assorted: tuple[Bundle, Path]) -> None:
    bundle, _ = assorted
    variants = ["strided#0", "strided#1", "strided#2"]
    labels = [*variants, "copy#0", "copy_fp16#0", "chosen#0", "plain#0", "scaled#0", "shaped#0", "nothing#0"]
    assert [entry.label for entry in bundle.entries] == labels
    assert len({entry.source_sha256 for entry in bundle.entries}) == len(labels)


def test_every_configuration_has_every_variant(tmp_path: Path) -> None:
    specs = [
        KernelSpec(
            kernels.scaled,
            name="scaled",
            arguments=[Pointer("fp32", divisible_by=divisor)],
            configs=[Config(BLOCK=64, num_warps=1), Config(BLOCK=256, num_warps=8)],
        )
        for divisor in (16, 1)
    ]
    bundle = compile_bundle(specs, ["sm86"], tmp_path / "bundle")
    assert inspect_bundle(tmp_path / "bundle") == bundle
    assert [entry.label for entry in bundle.entries] == ["scaled#0", "scaled#1", "scaled/1#0", "scaled/1#1"]
    assert [entry.constants[0].value for entry in bundle.entries] == [64, 64, 256, 256]
    assert [entry.cubins[0].threads for entry in bundle.entries] == [32, 32, 256, 256]
    assert [entry.arguments[0].divisible_by for entry in bundle.entries] == [16, 1, 16, 1]


def test_an_argument_that_equals_one_value_leaves_the_cubin_but_not_the_argument_list(
    assorted: tuple[Bundle, Path],
) -> None:
    bundle, directory = assorted
    folded, aligned, plain = bundle.entries[:3]
    assert [argument.name for argument in folded.arguments] == ["source", "target", "stride"]
    assert [argument.equal_to for argument in folded.arguments] == [None, None, 1]
    assert [argument.name for argument in folded.parameters] == ["source", "target"]
    assert parameter_sizes(directory, folded) == [8, 8, 8, 8]
    assert [argument.divisible_by for argument in aligned.arguments] == [16, 16, 4]
    for entry in (aligned, plain):
        assert parameter_sizes(directory, entry) == [8, 8, 4, 8, 8]
    assert "stride" not in [constant.name for constant in folded.constants]


@pytest.mark.parametrize(("divisor", "vectorised"), [(1, False), (16, True)])
def test_an_aligned_variant_loads_sixteen_bytes_at_once(tmp_path: Path, divisor: int, *, vectorised: bool) -> None:
    spec = KernelSpec(
        kernels.copy,
        name="copy",
        arguments=[*[Pointer("fp32", divisible_by=divisor)] * 2, Scalar("i32", divisible_by=divisor)],
        constants={"BLOCK": 1024},
    )
    (tmp_path / "cubin").write_bytes(compile_here(spec).cubin)
    assembly = cuobjdump("-sass", tmp_path / "cubin")
    assert "LDG.E" in assembly
    assert ("LDG.E.128" in assembly) == vectorised


@pytest.mark.parametrize("equal_to", [None, 1])
@pytest.mark.parametrize("type_", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_an_argument_has_its_declared_type_in_every_variant(type_: str, equal_to: int | None) -> None:
    """Or the product of a 64-bit stride would be one of 32 bits where the stride is known."""
    from triton import language as tl

    dtype = getattr(tl, type_.replace("i", "int").replace("u", "uint"))
    spec = KernelSpec(
        kernels.typed,
        name="typed",
        arguments=[Pointer("fp32"), Scalar(type_, equal_to=equal_to)],
        constants={"TYPE": dtype},
    )
    assert compile_here(spec).symbol == "typed"


@pytest.mark.parametrize("type_", ["i32", "i64", "u64"])
@pytest.mark.parametrize(("equal_to", "vectorised"), [(None, False), (1, True)])
def test_a_stride_that_is_known_is_no_hindrance_to_wide_loads(
    tmp_path: Path, type_: str, equal_to: int | None, *, vectorised: bool
) -> None:
    spec = KernelSpec(
        kernels.strided,
        name="strided",
        arguments=[*[Pointer("fp32", divisible_by=16)] * 2, Scalar(type_, equal_to=equal_to)],
        constants={"BLOCK": 1024},
    )
    (tmp_path / "cubin").write_bytes(compile_here(spec).cubin)
    assembly = cuobjdump("-sass", tmp_path / "cubin")
    assert "LDG.E" in assembly
    assert ("LDG.E.128" in assembly) == vectorised


def test_two_signatures_of_one_function_stand_side_by_side(assorted: tuple[Bundle, Path]) -> None:
    bundle, directory = assorted
    entries = by_kernel(bundle)
    assert entries["copy"].symbol == entries["copy_fp16"].symbol == "copy"
    assert parameter_sizes(directory, entries["copy"]) == [8, 8, 4, 8, 8]
    assert parameter_sizes(directory, entries["copy_fp16"]) == [8, 8, 8, 8, 8]


def test_constants_of_every_kind_are_accepted_and_recorded(assorted: tuple[Bundle, Path]) -> None:
    bundle, _ = assorted
    entries = by_kernel(bundle)
    assert entries["chosen"].constants == (
        Constant(name="SCALE", kind="number", value=2.5),
        Constant(name="MODE", kind="text", value="double"),
        Constant(name="TYPE", kind="dtype", value="fp16"),
        Constant(name="ROUND", kind="bool", value=True),
        Constant(name="F", kind="function", value="helpers.kernels:square"),
    )
    assert entries["plain"].constants == (
        Constant(name="SCALE", kind="none", value=None),
        Constant(name="MODE", kind="text", value=""),
        Constant(name="TYPE", kind="dtype", value="bf16"),
        Constant(name="ROUND", kind="bool", value=False),
        Constant(name="F", kind="function", value="triton.language.math:exp"),
    )
    assert entries["scaled"].constants == (
        Constant(name="BLOCK", kind="integer", value=64),
        Constant(name="FACTOR", kind="number", value=2.0),
    )


def test_a_tuple_is_recorded_as_its_text(assorted: tuple[Bundle, Path]) -> None:
    bundle, directory = assorted
    assert by_kernel(bundle)["shaped"].constants == (
        Constant(name="SHAPE", kind="tuple", value="""(16, (1, None, "it's"), fp16)"""),
    )
    assert r"(16, (1, None, \042it's\042), fp16)" in (directory / "bundle.cpp").read_text()


def test_a_kernel_without_arguments_has_the_scratch_pointers_alone(assorted: tuple[Bundle, Path]) -> None:
    bundle, directory = assorted
    for cubin in by_kernel(bundle)["nothing"].cubins:
        (kernel,) = read_cubin((directory / cubin.file).read_bytes()).kernels
        assert kernel.parameters == ((0, 8), (8, 8))


def test_manifest_records_tools_and_the_driver_they_need(assorted: tuple[Bundle, Path]) -> None:
    bundle, _ = assorted
    assert bundle.tools["ptxas"] == "12.9.86"
    assert re.fullmatch(r"3\.\d+\.\d+", bundle.tools["triton"])
    assert bundle.minimum_driver == "525.60.13"


def test_options_reach_the_cubin_and_the_manifest(assorted: tuple[Bundle, Path]) -> None:
    bundle, _ = assorted
    entries = by_kernel(bundle)
    assert {cubin.threads for cubin in entries["scaled"].cubins} == {64}
    assert {cubin.threads for cubin in entries["copy"].cubins} == {128}
    assert entries["scaled"].options["num_warps"] == 2


def test_fusion_is_an_option_of_the_declaration() -> None:
    """Whatever Triton's own default is: with it a*b+c is one instruction."""
    cubins = {}
    for fused in (True, False, None):
        option = {} if fused is None else {"enable_fp_fusion": fused}
        spec = KernelSpec(
            kernels.multiply_add,
            name="multiply_add",
            arguments=[Pointer("fp32")],
            **option,  # type: ignore[arg-type]
        )
        cubins[fused] = compile_here(spec).cubin
    assert cubins[True] == cubins[None] != cubins[False]


def test_registers_are_limited_by_the_option() -> None:
    spec: dict[str, Any] = {"name": "matmul", "arguments": [Pointer("fp16")] * 2 + [Pointer("fp32")], "num_warps": 1}
    counts = [
        read_cubin(compile_here(KernelSpec(kernels.matmul, **spec, constants={"N": 32}, maxnreg=limit)).cubin)
        .kernels[0]
        .registers
        for limit in (None, 40)
    ]
    assert counts[0] > 40 >= counts[1]


# Compiles kernels that hold strings, from a kernels file of the working directory.
FROM_A_DIRECTORY = """
import sys
from pathlib import Path

from hatch_tensoracle.kernels_file import load_kernels
from tensoracle_producer import compile_bundle

compile_bundle(load_kernels(Path("kernels.py").resolve(), "KERNELS"), ["sm86", "sm120"], sys.argv[1])
"""
WITH_STRINGS = """
import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer


@triton.jit
def helper(value):
    tl.static_assert(value.dtype == tl.float32, "only for fp32")
    tl.device_assert(value > 0, "must be positive")
    return value


@triton.jit
def reports(x, NAME: tl.constexpr):
    value = helper(tl.load(x))
    tl.device_print("value", value)
    if NAME == "twice":
        value += value
    tl.store(x, value)


KERNELS = [KernelSpec(reports, name="reports", arguments=[Pointer("fp32")], constants={"NAME": "twice"})]
"""


def test_bytes_are_the_same_from_any_directory_and_name_none(tmp_path: Path) -> None:
    bundles = []
    for i, place in enumerate(("firstplace", "some/deeper/second place")):
        project = tmp_path / place
        project.mkdir(parents=True)
        (project / "kernels.py").write_text("#\n" * i + WITH_STRINGS)
        environment = {
            "PYTHONHASHSEED": str(i),
            "TMPDIR": str(project),
            "HOME": str(project),
            "TENSORACLE_CACHE_DIR": str(tmp_path / f"cache{i}"),
        }
        run(sys.executable, "-c", FROM_A_DIRECTORY, f"output{i}", cwd=project, env=environment)
        assert sorted(path.name for path in project.iterdir()) == ["kernels.py", f"output{i}"]
        bundles.append(tree(project / f"output{i}"))
    assert bundles[0] == bundles[1]
    for name, data in bundles[0].items():
        assert b".debug_line" not in data, f"{name} has line information"
        for word in (b"place", b"output", b"kernels.py", b"/tmp", bytes(tmp_path), b"/work", bytes(SITE)):
            assert word not in data, f"{name} holds {word!r}"


def test_assertions_of_a_kernel_name_no_path() -> None:
    cubin = compile_here(KernelSpec(kernels.reports, name="reports", arguments=[Pointer("fp32")]), debug=True).cubin
    assert b"must be positive" in cubin
    for word in (b"kernels.py", b"/tmp", b"/work", b"tests"):
        assert word not in cubin


def test_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    compile_bundle([COPY], ["sm86", "sm89"], tmp_path / "bundle")
    (tmp_path / "bundle" / "cubins" / "stale.cubin").touch()
    bundle = compile_bundle([COPY], ["sm75"], tmp_path / "bundle")
    (cubin,) = bundle.entries[0].cubins
    assert tree(tmp_path / "bundle").keys() == {"bundle.json", "bundle.cpp", "cubins_000.cpp", cubin.file}
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_directory_that_is_empty_or_missing_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "empty", tmp_path / "below" / "missing"):
        compile_bundle([COPY], ["sm86"], str(directory))
        inspect_bundle(directory)
    assert (tmp_path / "empty").stat().st_mode == (tmp_path / "below").stat().st_mode


def test_directory_of_something_else_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    lines: list[str] = []
    with pytest.raises(FileExistsError, match=re.escape(str(tmp_path))):
        compile_bundle([COPY], ["sm86"], tmp_path, progress=lines.append)
    assert tree(tmp_path) == {"thesis.txt": b"years of work"}
    assert lines == []


def test_directory_stays_as_it_was_when_a_kernel_fails(tmp_path: Path) -> None:
    compile_bundle([COPY], ["sm86"], tmp_path / "bundle")
    before = tree(tmp_path / "bundle")
    failing = KernelSpec(kernels.misspelt, name="misspelt", arguments=[Pointer("fp32")])
    with pytest.raises(CompileError):
        compile_bundle([COPY, failing], ["sm89"], tmp_path / "bundle")
    assert tree(tmp_path / "bundle") == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


@pytest.mark.parametrize(
    ("targets", "error", "words"),
    [
        pytest.param(["sm85"], ValueError, ("unknown target `sm85`", "did you mean"), id="unknown"),
        pytest.param(["sm_86"], ValueError, ("unknown target `sm_86`", "`sm86`"), id="with an underscore"),
        pytest.param(["sm90a"], ValueError, ("unknown target `sm90a`", "`sm90`"), id="with an a"),
        pytest.param(["gfx942"], ValueError, ("unknown target `gfx942`", "known are sm75"), id="of another vendor"),
        pytest.param(["sm86", ""], ValueError, ("unknown target ``",), id="empty name"),
        pytest.param([], ValueError, ("at least one",), id="none"),
        pytest.param([86], TypeError, ("targets[0]", "86"), id="a number"),
        pytest.param(["sm86", None], TypeError, ("targets[1]", "None"), id="None"),
        pytest.param("sm86", TypeError, ("targets", "'sm86'"), id="one name instead of a list"),
        pytest.param(None, TypeError, ("targets", "None"), id="no list"),
    ],
)
def test_targets_are_checked(tmp_path: Path, targets: Any, error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        compile_bundle([COPY], targets, tmp_path / "bundle")
    assert [word for word in words if word not in str(caught.value)] == []
    assert list(tmp_path.iterdir()) == []


def test_a_target_named_twice_is_compiled_once(tmp_path: Path) -> None:
    bundle = compile_bundle([COPY], ["sm86", "sm75", "sm86"], tmp_path / "bundle")
    assert bundle.targets == ("sm86", "sm75")
    assert [cubin.target for _, cubin in bundle.cubins()] == ["sm86", "sm75"]


@pytest.mark.parametrize(
    ("specs", "error", "words"),
    [
        pytest.param([], ValueError, ("at least one KernelSpec",), id="none"),
        pytest.param([kernels.copy], TypeError, ("specs[0]", "KernelSpec"), id="a kernel without its spec"),
        pytest.param([COPY, None], TypeError, ("specs[1]", "None"), id="None"),
        pytest.param(COPY, TypeError, ("specs", "KernelSpec"), id="one spec instead of a list"),
        pytest.param(
            [
                COPY,
                KernelSpec(kernels.scaled, name="copy", arguments=[Pointer("fp32")]),
            ],
            ValueError,
            ("`copy#1` takes x: *fp32", "`copy#0` takes source: *fp32, target: *fp32, size: i32"),
            id="variants with other arguments",
        ),
        pytest.param(
            [COPY, COPY],
            ValueError,
            ("`copy#1` is never launched", "`copy#0` accepts all"),
            id="a variant behind one that takes everything",
        ),
        pytest.param(
            [
                dataclasses.replace(COPY, arguments=[Pointer("fp32", divisible_by=d)] * 2 + [Scalar("i32")])
                for d in (8, 16)
            ],
            ValueError,
            ("`copy#1` is never launched", "`copy#0` accepts all"),
            id="a variant behind one that assumes less",
        ),
        pytest.param(
            [
                dataclasses.replace(COPY, arguments=[Pointer("fp32", divisible_by=16)] * 2 + [Scalar("i32")]),
                dataclasses.replace(COPY, constants={"BLOCK": 128}),
            ],
            ValueError,
            ("`copy#1` has the constants BLOCK=128", "`copy#0` has the constants BLOCK=64"),
            id="variants with other constants, which would fit another grid",
        ),
        pytest.param(
            [
                KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32", divisible_by=16)]),
                KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32")], configs=[Config(), Config()]),
            ],
            ValueError,
            ("`scaled`", "1, 2 configs"),
            id="variants with other numbers of configurations",
        ),
    ],
)
def test_specs_are_checked_together(tmp_path: Path, specs: Any, error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        compile_bundle(specs, ["sm86"], tmp_path / "bundle")
    assert [word for word in words if word not in str(caught.value)] == []
    assert list(tmp_path.iterdir()) == []


def test_another_ptxas_can_be_named(tmp_path: Path) -> None:
    """Triton's own for Blackwell is of CUDA 13, whose headers are others."""
    bundle = compile_bundle([COPY], list(TARGETS), tmp_path / "bundle", ptxas=PTXAS_13)
    assert inspect_bundle(tmp_path / "bundle") == bundle
    assert bundle.tools["ptxas"].startswith("13.")
    assert bundle.minimum_driver == "580.65.06"


def test_ptxas_can_be_named_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have another one, and Triton takes its own ptxas if it does not find one."""
    (tmp_path / PTXAS_13.name).symlink_to(PTXAS_13)  # of the same name, which ptxas writes into cubins
    monkeypatch.chdir(tmp_path)
    bundles: list[Bundle] = []
    for ptxas in (PTXAS_13.name, PTXAS_13):
        monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / f"cache{len(bundles)}"))
        bundles.append(compile_bundle([COPY], ["sm86"], "bundle", ptxas=ptxas))
    assert bundles[0] == bundles[1]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("#!/bin/sh\n", ("no ptxas", "''"), id="says nothing"),
        pytest.param("#!/bin/sh\necho ptxas of my own, version 12.9\n", ("of my own",), id="says something else"),
        pytest.param("#!/bin/sh\nexit 3\n", ("status 3",), id="fails"),
        pytest.param("no program", ("could not be started",), id="no program"),
        pytest.param(
            "#!/bin/sh\necho Ptx optimizing assembler\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n",
            ("11.8.89", "12, 13"),
            id="of an older CUDA",
        ),
        pytest.param(
            "#!/bin/sh\necho cuobjdump: NVIDIA\necho 'Cuda compilation tools, release 12.9, V12.9.82'\n",
            ("cuobjdump", "no ptxas"),
            id="another tool of CUDA",
        ),
    ],
)
def test_a_ptxas_that_is_none_is_refused(tmp_path: Path, script: str, words: tuple[str, ...]) -> None:
    program = tmp_path / "program"
    program.write_text(script)
    program.chmod(0o755)
    with pytest.raises(ToolchainError, match=re.escape(str(program))) as caught:
        compile_bundle([COPY], ["sm86"], tmp_path / "bundle", ptxas=program)
    assert [word for word in words if word not in str(caught.value)] == []
    assert caught.value.remedy == "Name another ptxas."


def test_a_ptxas_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=re.escape(str(tmp_path / "missing"))):
        compile_bundle([COPY], ["sm86"], tmp_path / "bundle", ptxas=tmp_path / "missing")


def test_progress_names_every_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_PATIENCE", 3600.0)  # or a slow machine would have more lines of progress
    lines: list[str] = []
    compile_bundle([COPY], ["sm86", "sm89", "sm90"], tmp_path / "bundle", progress=lines.append)
    matches = [re.fullmatch(r"\[(\d)/3\] copy#0 (sm\d+): \d+ bytes, \d+\.\d\d s", line) for line in lines]
    assert [match and match[1] for match in matches] == ["1", "2", "3"]
    assert {match[2] for match in matches if match} == {"sm86", "sm89", "sm90"}


def test_only_the_ptxas_that_is_named_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the pinned one gives the same bytes, and the variables that Triton reads are left out of it."""
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(PTXAS_13))
    copy = shutil.copy(PTXAS, tmp_path / "assembler")
    bundles = []
    for i, ptxas in enumerate((None, copy)):
        monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / f"cache{i}"))
        bundles.append(compile_bundle([COPY], ["sm86"], tmp_path / f"bundle{i}", ptxas=ptxas))
    assert bundles[0] == bundles[1]
