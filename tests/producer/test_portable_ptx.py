"""PTX beside the cubins: what is kept, under which version, and what it asks of a driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import kernels
from helpers.producing import toolchain
from helpers.projects import tree
from helpers.tools import PTXAS, PTXAS_13, assemble, cuobjdump

from hatch_tensoracle import Bundle, inspect_bundle
from hatch_tensoracle.bundle import SCALAR_SIZES, Ptx
from hatch_tensoracle.ptx import read_ptx
from tensoracle_producer import CompileError, KernelSpec, Pointer, Scalar, compile_bundle
from tensoracle_producer.ptx import PtxDiffersError, portable_ptx
from tensoracle_producer.toolchain import PTX_DRIVERS

COPY = KernelSpec(
    kernels.copy,
    name="copy",
    arguments=[Pointer("fp32"), Pointer("fp32"), Scalar("i32")],
    constants={"BLOCK": 64},
)
TO_FP8 = KernelSpec(
    kernels.convert, name="to_fp8", arguments=[Pointer("fp32"), Pointer("fp8e4nv")], constants={"BLOCK": 64}
)


def ptx_of(bundle: Bundle) -> dict[str, Ptx]:
    return {entry.kernel: entry.ptx for entry in bundle.entries if entry.ptx is not None}


def test_every_entry_has_ptx_beside_its_cubins(tmp_path: Path) -> None:
    bundle = compile_bundle([COPY, TO_FP8], ["sm120"], tmp_path / "bundle", ptx="sm89")
    assert inspect_bundle(tmp_path / "bundle") == bundle
    assert (bundle.targets, bundle.ptx_target) == (("sm120",), "sm89")
    assert [(entry.kernel, code.label) for entry, code in bundle.codes()] == [
        ("copy", "sm120"),
        ("copy", "sm89 PTX"),
        ("to_fp8", "sm120"),
        ("to_fp8", "sm89 PTX"),
    ]
    assert {name for name in tree(tmp_path / "bundle") if "/" in name} == {
        "cubins/copy.0.0.sm120.cubin",
        "cubins/to_fp8.0.0.sm120.cubin",
        "ptx/copy.0.0.sm89.ptx",
        "ptx/to_fp8.0.0.sm89.ptx",
    }


def test_nothing_of_ptx_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    bundle = compile_bundle([COPY], ["sm89"], tmp_path / "bundle")
    assert (bundle.ptx_target, ptx_of(bundle)) == (None, {})
    assert not (tmp_path / "bundle" / "ptx").exists()


def test_a_target_may_have_both(tmp_path: Path) -> None:
    bundle = compile_bundle([COPY], ["sm89", "sm86"], tmp_path / "bundle", ptx="sm89")
    assert [code.label for _, code in bundle.codes()] == ["sm89", "sm86", "sm89 PTX"]
    without = compile_bundle([COPY], ["sm89", "sm86"], tmp_path / "without")
    assert bundle.entries[0].cubins == without.entries[0].cubins


@pytest.mark.parametrize("target", ["sm75", "sm80", "sm86", "sm87", "sm89"])
def test_ptx_is_what_newer_gpus_can_be_given(tmp_path: Path, target: str) -> None:
    """ptxas, in the role of a driver's compiler, takes it for every generation from the target on."""
    matmul = KernelSpec(
        kernels.matmul, name="matmul", arguments=[*[Pointer("fp16")] * 2, Pointer("fp32")], constants={"N": 32}
    )
    bundle = compile_bundle([matmul], ["sm86"], tmp_path / "bundle", ptx=target)
    ptx = ptx_of(bundle)["matmul"]
    text = (tmp_path / "bundle" / ptx.file).read_text()
    image = read_ptx(text.encode())
    (function,) = image.entries
    assert (image.target, image.version) == (target.replace("sm", "sm_"), ptx.version)
    assert (function.symbol, function.parameters, function.threads) == ("matmul", (8, 8, 8, 8, 8), 128)
    assert ptx.dynamic_shared > 0
    own = int(target.removeprefix("sm"))
    for sm in {own, 90, 100, 120, 121}:
        assert assemble(text, tmp_path, target=f"sm_{sm}").stat().st_size > 0


def test_parameters_of_every_type_are_those_of_the_spec(tmp_path: Path) -> None:
    specs = [
        KernelSpec(
            kernels.fill,
            name=f"fill_{type_}",
            arguments=[Pointer(type_), Scalar(type_), Scalar("i32")],
            constants={"BLOCK": 64},
        )
        for type_ in SCALAR_SIZES
    ]
    bundle = compile_bundle(specs, ["sm89"], tmp_path / "bundle", ptx="sm89")
    seen = {}
    for kernel, ptx in ptx_of(bundle).items():
        (function,) = read_ptx((tmp_path / "bundle" / ptx.file).read_bytes()).entries
        seen[kernel.removeprefix("fill_")] = function.parameters
    assert seen == {type_: (8, size, 4, 8, 8) for type_, size in SCALAR_SIZES.items()}


def test_the_text_is_the_same_from_any_directory_and_holds_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in ("one", "ein anderes Verzeichnis"):
        directory = tmp_path / name
        directory.mkdir()
        monkeypatch.chdir(directory)
        monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(directory / "cache"))
        compile_bundle([COPY], ["sm86"], directory / "bundle", ptx="sm89")
        seen.append(tree(directory / "bundle"))
    assert seen[0] == seen[1]
    text = seen[0]["ptx/copy.0.0.sm89.ptx"].decode()
    assert not re.search(r"\.(file|loc|section)\b|/tmp|kernels\.py", text)


# Versions and drivers


def test_the_version_is_the_oldest_that_the_text_can_have(tmp_path: Path) -> None:
    """What FP8 on sm89 needs came with PTX 8.1, and the driver of CUDA 12.1 with it."""
    plain = compile_bundle([COPY], ["sm86"], tmp_path / "plain", ptx="sm89")
    assert {ptx.version for ptx in ptx_of(plain).values()} == {"8.0"}
    assert plain.minimum_driver == compile_bundle([COPY], ["sm86"], tmp_path / "none").minimum_driver == "525.60.13"
    mixed = compile_bundle([COPY, TO_FP8], ["sm89"], tmp_path / "mixed", ptx="sm89")
    assert {kernel: ptx.version for kernel, ptx in ptx_of(mixed).items()} == {"copy": "8.0", "to_fp8": "8.1"}
    assert mixed.minimum_driver == "530.30.02"
    assert compile_bundle([TO_FP8], ["sm89"], tmp_path / "fp8").minimum_driver == "525.60.13"


def test_the_minimum_driver_is_the_newest_that_anything_needs() -> None:
    assert toolchain().minimum_driver() == "525.60.13"
    assert toolchain().minimum_driver(["8.0", "8.4", "8.1"]) == "550.54.14"
    assert toolchain().minimum_driver(PTX_DRIVERS) == "580.65.06"


def test_another_ptxas_does_not_change_what_ptx_needs(tmp_path: Path) -> None:
    """Triton writes the version that ptxas knows, 9.0 and more of CUDA 13; its cubins need a newer driver anyway."""
    bundle = compile_bundle([COPY], ["sm86"], tmp_path / "bundle", ptx="sm89", ptxas=PTXAS_13)
    assert ptx_of(bundle)["copy"].version == "8.0"
    assert bundle.minimum_driver == "580.65.06"


def multiply_add(rounding: str) -> str:
    body = f"ld.param.f32 %f1, [x]; mul{rounding}.f32 %f2, %f1, %f1; add{rounding}.f32 %f3, %f2, %f1;"
    return (
        ".version 8.8\n.target sm_89\n.address_size 64\n.visible .entry f(.param .f32 x, .param .u64 y) {\n"
        f".reg .f32 %f<4>; .reg .b64 %r<3>; ld.param.u64 %r1, [y]; {body} st.global.f32 [%r1], %f3; ret; }}\n"
    )


def test_a_contraction_that_was_forbidden_must_be_forbidden_in_the_text_too() -> None:
    """A driver's compiler is not told: what it may contract, it does."""
    expected = multiply_add(".rn").replace("8.8", "8.0")
    for is_fused in (True, False):
        assert portable_ptx(multiply_add(".rn"), 89, PTXAS, is_fused=is_fused) == expected
    assert portable_ptx(multiply_add(""), 89, PTXAS, is_fused=True)
    with pytest.raises(PtxDiffersError, match=r"makes other code of the PTX under each of the versions 8\.0, 8\.1"):
        portable_ptx(multiply_add(""), 89, PTXAS, is_fused=False)


@pytest.mark.parametrize("is_fused", [True, False])
def test_kernels_compute_on_newer_gpus_as_they_were_declared_to(tmp_path: Path, *, is_fused: bool) -> None:
    spec = KernelSpec(kernels.multiply_add, name="f", arguments=[Pointer("fp32")], enable_fp_fusion=is_fused)
    bundle = compile_bundle([spec], ["sm86"], tmp_path / "bundle", ptx="sm80")
    text = (tmp_path / "bundle" / ptx_of(bundle)["f"].file).read_text()
    listing = cuobjdump("--dump-sass", assemble(text, tmp_path, target="sm_90"))
    assert ("FFMA" in listing) is is_fused
    assert ("FMUL" in listing) is not is_fused


# Refusals


@pytest.mark.parametrize(
    ("ptx", "error", "message"),
    [
        pytest.param("sm90", ValueError, "unusable PTX target `sm90`", id="too new"),
        pytest.param("sm_89", ValueError, "unknown target `sm_89`; did you mean `sm89`", id="unknown"),
        pytest.param(["sm89"], TypeError, "ptx must be the name of a target such as 'sm89'", id="a list"),
    ],
)
def test_ptx_of_no_use_is_refused_before_anything_is_compiled(
    tmp_path: Path, ptx: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compile_bundle([COPY], ["sm86"], tmp_path / "bundle", ptx=ptx)
    assert not (tmp_path / "bundle").exists()


def test_a_kernel_that_does_not_compile_is_named_with_what_was_made_of_it(tmp_path: Path) -> None:
    spec = KernelSpec(kernels.bad_assembly, name="bad", arguments=[Pointer("i32")])
    with pytest.raises(CompileError) as caught:
        compile_bundle([spec], ["sm86"], tmp_path / "bundle", ptx="sm80")
    assert [failure.target for failure in caught.value.failures] == ["sm86", "sm80 PTX"]
    assert "kernel `bad#0` for sm80 PTX: ptxas" in str(caught.value)


def test_more_shared_memory_than_the_target_has_is_refused(tmp_path: Path) -> None:
    spec = KernelSpec(
        kernels.matmul,
        name="matmul",
        arguments=[Pointer("fp32")] * 3,
        constants={"N": 128},
        num_stages=2,
        num_warps=8,
    )
    compile_bundle([spec], ["sm80"], tmp_path / "bundle", ptx="sm80")
    with pytest.raises(CompileError, match=r"for sm86 PTX: \d+ bytes of dynamic .* sm86 has 101376"):
        compile_bundle([spec], ["sm80"], tmp_path / "bundle", ptx="sm86")
