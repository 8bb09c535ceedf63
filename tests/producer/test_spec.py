"""Declarations are checked where they stand: the field is named, TypeError for a type, ValueError for a value."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import kernels
from helpers.tools import PTXAS

from hatch_tensoracle.targets import TARGETS
from tensoracle_producer import Config, KernelSpec, Pointer, Scalar

COPY: dict[str, Any] = {
    "name": "copy",
    "arguments": [Pointer("fp32"), Pointer("fp32"), Scalar("i32")],
    "constants": {"BLOCK": 64},
}


def case(label: str, fields: dict[str, Any], error: type[Exception], *words: str) -> Any:
    return pytest.param(fields, error, words, id=label)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        case("unknown element", {"element": "float32"}, ValueError, "Pointer.element", "'float32'", "fp32"),
        case("empty element", {"element": ""}, ValueError, "Pointer.element"),
        case("Triton's pointer type", {"element": "*fp32"}, ValueError, "Pointer.element", "'*fp32'"),
        case("element of another type", {"element": 32}, TypeError, "Pointer.element", "str", "32"),
        case("divisor 7", {"element": "fp32", "divisible_by": 7}, ValueError, "Pointer.divisible_by", "7"),
        case("divisor 0", {"element": "fp32", "divisible_by": 0}, ValueError, "Pointer.divisible_by", "0"),
        case("divisor -16", {"element": "fp32", "divisible_by": -16}, ValueError, "Pointer.divisible_by", "-16"),
        case("divisor 256", {"element": "fp32", "divisible_by": 256}, ValueError, "Pointer.divisible_by", "256"),
        case("divisor true", {"element": "fp32", "divisible_by": True}, TypeError, "Pointer.divisible_by", "True"),
        case("divisor 16.0", {"element": "fp32", "divisible_by": 16.0}, TypeError, "Pointer.divisible_by", "16.0"),
        case("divisor text", {"element": "fp32", "divisible_by": "16"}, TypeError, "Pointer.divisible_by", "'16'"),
        case("misspelt option", {"element": "fp32", "divisble_by": 16}, TypeError, "divisble_by"),
    ],
)
def test_pointer_refuses(fields: dict[str, Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        Pointer(**fields)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        case("unknown type", {"type": "int"}, ValueError, "Scalar.type", "'int'", "i32"),
        case("fp8, which is no parameter type", {"type": "fp8e5"}, ValueError, "Scalar.type", "'fp8e5'"),
        case("pointer", {"type": "*i32"}, ValueError, "Scalar.type", "'*i32'"),
        case("type of another type", {"type": int}, TypeError, "Scalar.type", "str"),
        case("divisor 12", {"type": "i32", "divisible_by": 12}, ValueError, "Scalar.divisible_by", "12"),
        case("divisor None", {"type": "i32", "divisible_by": None}, TypeError, "Scalar.divisible_by", "None"),
        case("divisor of a float", {"type": "fp32", "divisible_by": 16}, ValueError, "Scalar.divisible_by", "fp32"),
        case("divisor of a bool", {"type": "i1", "divisible_by": 2}, ValueError, "Scalar.divisible_by", "i1"),
        case("value of a float", {"type": "fp32", "equal_to": 1}, ValueError, "Scalar.equal_to", "fp32"),
        case("value of a bool", {"type": "i1", "equal_to": 1}, ValueError, "Scalar.equal_to", "i1"),
        case("float as i32", {"type": "i32", "equal_to": 1.0}, TypeError, "Scalar.equal_to", "1.0"),
        case("true as i32", {"type": "i32", "equal_to": True}, TypeError, "Scalar.equal_to", "True"),
        case("text as i32", {"type": "i32", "equal_to": "1"}, TypeError, "Scalar.equal_to", "'1'"),
        case(
            "value that would lose its type", {"type": "i64", "equal_to": 4096}, ValueError, "Scalar.equal_to", "4096"
        ),
        case("value 0", {"type": "i32", "equal_to": 0}, ValueError, "Scalar.equal_to", "0"),
        case(
            "value and divisor at odds",
            {"type": "i32", "equal_to": 1, "divisible_by": 16},
            ValueError,
            "Scalar.equal_to",
            "16",
        ),
        case("misspelt option", {"type": "i32", "equals": 1}, TypeError, "equals"),
    ],
)
def test_scalar_refuses(fields: dict[str, Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        Scalar(**fields)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("type_", ["i8", "u8", "i32", "i64", "u64"])
def test_an_integer_of_any_width_can_be_known_to_be_1(type_: str) -> None:
    assert Scalar(type_, equal_to=1).equal_to == 1


def test_assumptions_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Pointer("fp32", 16)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Scalar("i32", 16)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        case("name of another type", {"name": 5}, TypeError, "KernelSpec.name", "5"),
        case("empty name", {"name": ""}, ValueError, "KernelSpec.name", "''"),
        case("name with a path", {"name": "../copy"}, ValueError, "KernelSpec.name", "'../copy'"),
        case("name with a dash", {"name": "copy-fp32"}, ValueError, "KernelSpec.name", "'copy-fp32'"),
        case("name with a line end", {"name": "copy\n"}, ValueError, "KernelSpec.name"),
        case("name beyond ASCII", {"name": "kopiér"}, ValueError, "KernelSpec.name", "'kopiér'"),
        case("name begins with a digit", {"name": "2copy"}, ValueError, "KernelSpec.name", "'2copy'"),
        case("arguments None", {"arguments": None}, TypeError, "arguments", "None"),
        case("arguments one pointer", {"arguments": Pointer("fp32")}, TypeError, "arguments", "Pointer"),
        case("arguments Triton's types", {"arguments": ["*fp32"] * 3}, TypeError, "arguments[0]", "'*fp32'"),
        case(
            "an argument's class",
            {"arguments": [Pointer("fp32"), Pointer, Scalar("i32")]},
            TypeError,
            "arguments[1]",
        ),
        case("too few arguments", {"arguments": [Pointer("fp32")]}, ValueError, "arguments has 1", "3", "size"),
        case("too many arguments", {"arguments": [Pointer("fp32")] * 4}, ValueError, "arguments has 4", "3"),
        case("constants None", {"constants": None}, TypeError, "constants", "None"),
        case("constants a list", {"constants": ["BLOCK"]}, TypeError, "constants", "['BLOCK']"),
        case("constant missing", {"constants": {}}, ValueError, "constants lacks `BLOCK`"),
        case("constant misspelt", {"constants": {"BLOK": 64}}, ValueError, "constants has `BLOK`", "BLOCK"),
        case("warps 0", {"num_warps": 0}, ValueError, "num_warps", "0"),
        case("warps 3", {"num_warps": 3}, ValueError, "num_warps", "3"),
        case("warps 64", {"num_warps": 64}, ValueError, "num_warps", "64"),
        case("warps 4.0", {"num_warps": 4.0}, TypeError, "num_warps", "4.0"),
        case("warps True", {"num_warps": True}, TypeError, "num_warps", "True"),
        case("stages 0", {"num_stages": 0}, ValueError, "num_stages", "0"),
        case("stages -1", {"num_stages": -1}, ValueError, "num_stages", "-1"),
        case("stages text", {"num_stages": "2"}, TypeError, "num_stages", "'2'"),
        case("stages None", {"num_stages": None}, TypeError, "num_stages", "None"),
        case("registers 0", {"maxnreg": 0}, ValueError, "maxnreg", "0"),
        case("registers 23", {"maxnreg": 23}, ValueError, "maxnreg must be from 24 to 255, not 23"),
        case("registers 1000", {"maxnreg": 1000}, ValueError, "maxnreg", "1000"),
        case("registers 64.0", {"maxnreg": 64.0}, TypeError, "maxnreg", "64.0"),
        case("fusion 1", {"enable_fp_fusion": 1}, TypeError, "enable_fp_fusion", "1"),
        case("fusion None", {"enable_fp_fusion": None}, TypeError, "enable_fp_fusion", "None"),
        case(
            "unknown precision",
            {"default_dot_input_precision": "fp16"},
            ValueError,
            "default_dot_input_precision",
            "'fp16'",
            "tf32",
        ),
        case(
            "precision None",
            {"default_dot_input_precision": None},
            TypeError,
            "default_dot_input_precision",
            "None",
        ),
        case("configs None", {"configs": None}, TypeError, "configs", "None"),
        case("one config instead of a list", {"configs": Config()}, TypeError, "configs", "Config"),
        case("configs of Triton's kind", {"configs": [{"BLOCK": 64}]}, TypeError, "configs[0]", "{'BLOCK': 64}"),
        case("option misspelt in a config", {"configs": [Config(num_wraps=8)]}, ValueError, "constants", "`num_wraps`"),
        case("option of the spec alone", {"configs": [Config(num_ctas=2)]}, ValueError, "constants", "`num_ctas`"),
        case("warps of a config", {"configs": [Config(num_warps=64)]}, ValueError, "num_warps", "64"),
        case("stages of a config", {"configs": [Config(num_stages=0)]}, ValueError, "num_stages", "0"),
        case(
            "constant missing in one config",
            {"constants": {}, "configs": [Config(BLOCK=64), Config()]},
            ValueError,
            "constants lacks `BLOCK`",
        ),
    ],
)
def test_kernel_spec_refuses(fields: dict[str, Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        KernelSpec(kernels.copy, **{**COPY, **fields})
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    "option",
    ["num_wraps", "num_ctas", "launch_cooperative_grid", "launch_pdl", "cluster_dims", "waves_per_eu"],
)
def test_an_option_that_is_not_offered_is_refused_by_name(option: str) -> None:
    """Neither a slip of the pen nor an option that the launcher would have to honour is ever ignored."""
    with pytest.raises(TypeError, match=option):
        KernelSpec(kernels.copy, **{**COPY, option: 8})


def test_message_names_the_kernel() -> None:
    with pytest.raises(ValueError, match="KernelSpec `copy`"):
        KernelSpec(kernels.copy, **{**COPY, "num_warps": 64})


def autotuned() -> Any:
    import triton

    configs = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_stages=4, maxnreg=64)]
    return triton.autotune(configs, key=["size"])(kernels.copy)


def with_heuristics() -> Any:
    import triton

    return triton.heuristics({"BLOCK": lambda _: 64})(kernels.copy)


def with_both() -> Any:
    import triton

    return triton.autotune([triton.Config({}, num_ctas=2)], key=[])(with_heuristics())


def gluon() -> Any:
    from triton.experimental import gluon

    return gluon.jit(kernels.copy.fn)


def constexpr_function() -> Any:
    import triton

    return triton.constexpr_function(kernels.copy.fn)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(
            autotuned,
            (
                "is decorated with triton.autotune, which choose at run time",
                "pass the triton.jit function itself, which is its attribute fn;",
                "write configs=[Config(BLOCK=64, num_warps=2, num_stages=3), Config(BLOCK=128, num_warps=4,",
            ),
            id="autotuned",
        ),
        pytest.param(
            with_heuristics,
            ("triton.heuristics", "its attribute fn;", "give `BLOCK` in constants"),
            id="with heuristics",
        ),
        pytest.param(
            with_both,
            ("triton.autotune and triton.heuristics", "attribute fn.fn;", "num_ctas=2", "give `BLOCK` in constants"),
            id="with both",
        ),
        pytest.param(gluon, ("triton.jit",), id="a Gluon kernel"),
        pytest.param(constexpr_function, ("triton.jit",), id="a constexpr_function"),
        pytest.param(lambda: kernels.copy.fn, ("triton.jit",), id="a plain function"),
        pytest.param(lambda: "copy", ("triton.jit", "'copy'"), id="a name"),
        pytest.param(lambda: None, ("triton.jit", "None"), id="None"),
    ],
)
def test_only_a_triton_jit_function_is_a_kernel(function: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="KernelSpec `copy`: function") as caught:
        KernelSpec(function(), **COPY)
    assert all(word in str(caught.value) for word in words)


def test_what_is_to_be_written_for_an_autotuner_is_a_spec() -> None:
    with pytest.raises(TypeError) as caught:
        KernelSpec(autotuned(), **COPY)
    (written,) = re.findall(r"configs=(\[.*\])", str(caught.value))
    spec = KernelSpec(autotuned().fn, **{**COPY, "constants": {}, "configs": eval(written, {"Config": Config})})  # noqa: S307
    assert [one.constants["BLOCK"] for one in spec.configurations()] == [64, 128]
    assert [one.options["num_warps"] for one in spec.configurations()] == [2, 4]


def test_a_tensor_descriptor_of_the_host_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"parameter `source` is a tensor descriptor, .* tl\.make_tensor_descriptor"):
        KernelSpec(kernels.annotated, name="annotated", arguments=[Pointer("fp32")])


def test_device_assertions_are_refused_rather_than_lost() -> None:
    import triton

    with pytest.raises(ValueError, match="KernelSpec `reports`: function is declared with debug=True"):
        KernelSpec(triton.jit(debug=True)(kernels.reports.fn), name="reports", arguments=[Pointer("fp32")])


def test_a_constexpr_parameter_with_a_default_may_be_left_out() -> None:
    spec = KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32")])
    assert spec.constants == {"BLOCK": 64, "FACTOR": 2.0}


def test_a_given_constant_goes_before_the_default_and_order_is_the_functions() -> None:
    spec = KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32")], constants={"FACTOR": 3, "BLOCK": 32})
    assert list(spec.constants.items()) == [("BLOCK", 32), ("FACTOR", 3)]


def test_a_parameter_that_is_not_annotated_can_be_a_constant() -> None:
    spec = KernelSpec(
        kernels.copy,
        name="copy",
        arguments=[Pointer("fp32"), Pointer("fp32")],
        constants={"BLOCK": 64, "size": 64},
    )
    assert [name for name, _ in spec.parameters] == ["source", "target"]


def test_arguments_may_come_from_a_generator() -> None:
    spec = KernelSpec(kernels.copy, **{**COPY, "arguments": (argument for argument in COPY["arguments"])})
    assert spec.arguments == tuple(COPY["arguments"])


@pytest.mark.parametrize("configs", [(), (Config(),)], ids=["alone", "with configs"])
def test_a_later_change_of_what_was_passed_does_not_reach_the_spec(configs: tuple[Config, ...]) -> None:
    constants = {"BLOCK": 64}
    spec = KernelSpec(kernels.copy, **{**COPY, "constants": constants, "configs": configs})
    constants["BLOCK"] = 128
    assert [made.constants for made in spec.configurations()] == [{"BLOCK": 64}]


def test_a_configuration_replaces_constants_and_options_of_the_spec() -> None:
    spec = KernelSpec(
        kernels.scaled,
        name="scaled",
        arguments=[Pointer("fp32")],
        constants={"BLOCK": 32},
        num_warps=2,
        configs=[Config(BLOCK=128, num_warps=8), Config(FACTOR=3, num_stages=1, maxnreg=64), Config()],
    )
    assert [
        (made.constants, made.num_warps, made.num_stages, made.maxnreg, made.configs) for made in spec.configurations()
    ] == [
        ({"BLOCK": 128, "FACTOR": 2.0}, 8, 3, None, ()),
        ({"BLOCK": 32, "FACTOR": 3}, 2, 1, 64, ()),
        ({"BLOCK": 32, "FACTOR": 2.0}, 2, 3, None, ()),
    ]


def test_constants_may_stand_in_the_configurations_alone() -> None:
    spec = KernelSpec(kernels.copy, **{**COPY, "constants": {}, "configs": [Config(BLOCK=64), Config(BLOCK=128)]})
    assert [made.constants for made in spec.configurations()] == [{"BLOCK": 64}, {"BLOCK": 128}]


def test_a_spec_without_configurations_is_its_only_one() -> None:
    spec = KernelSpec(kernels.copy, **COPY)
    assert spec.configurations() == (spec,)


def test_every_option_that_changes_numbers_has_a_value_of_its_own() -> None:
    """Triton's defaults move between releases (3.9 announces another one for fusion)."""
    assert KernelSpec(kernels.copy, **COPY).options == {
        "num_warps": 4,
        "num_stages": 3,
        "maxnreg": None,
        "enable_fp_fusion": True,
        "default_dot_input_precision": "tf32",
    }


def test_the_fewest_registers_that_can_be_asked_for_are_24() -> None:
    assert KernelSpec(kernels.copy, **{**COPY, "maxnreg": 24}).maxnreg == 24


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("registers", "raised"), [(23, True), (24, False)])
def test_the_assembler_raises_fewer_registers_itself(
    tmp_path: Path, target: str, registers: int, *, raised: bool
) -> None:
    """With a warning, which Triton does not show."""
    name = f"sm_{TARGETS[target].sm}"
    (tmp_path / "kernel.ptx").write_text(
        f".version 8.8\n.target {name}\n.address_size 64\n.visible .entry k() .maxnreg {registers} {{ ret; }}\n"
    )
    done = subprocess.run(
        [PTXAS, "--gpu-name", name, tmp_path / "kernel.ptx", "-o", tmp_path / "cubin"],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert (f"count of {registers} to lower bound of 24" in done.stderr) == raised


def test_a_spec_cannot_be_changed() -> None:
    spec = KernelSpec(kernels.copy, **COPY)
    with pytest.raises(AttributeError):
        spec.num_warps = 8  # type: ignore[misc]
