"""Engines are built by real TensorRT-RTX, on the CPU, each in a process of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hatch_tensoracle.runtime import BuilderSettings, EngineBuild, EngineBuildError, build_serialized_engine
from runtime.processes import run_code

TESTS = Path(__file__).parents[1]
PRELUDE = f"""
sys.path.insert(0, {str(TESTS)!r})
from runtime.graphs import *

def build(graph, inputs, plugins=(), settings=BuilderSettings(), **options):
    declaration = EngineBuild(precision="fp16", inputs=inputs, settings=settings)
    return attempt(lambda: len(build_serialized_engine(graph, declaration, plugins, **options)))
"""


def built(code: str, *arguments: str | Path) -> Any:
    """What the process answers."""
    return run_code(PRELUDE + code, *arguments).answer()


def test_a_graph_with_shape_inputs_and_shape_outputs_is_built() -> None:
    assert built("answer(build(reshape, RESHAPE_INPUTS))") > 1000


def test_shapes_may_be_32_bits_wide_and_then_their_values_are() -> None:
    code = """
def graph(network):
    reshape(network, "INT32")
wide = RESHAPE_INPUTS | {"shape": InputShape.values((1, 8), (2, 8), (2**31, 8))}
answer([build(graph, wide), build(graph, RESHAPE_INPUTS)])
"""
    refusal, size = built(code)
    assert refusal == "ValueError: input 'shape' is INT32, which (1, 8) to (2147483648, 8) does not fit"
    assert size > 1000


def test_several_profiles_are_built() -> None:
    code = """
more = {"x": InputShape.fixed((9, 8)), "shape": InputShape.values((9, 8), (9, 8), (9, 8))}
two = {name: [shape, more[name]] for name, shape in RESHAPE_INPUTS.items()}
shared = {"x": RESHAPE_INPUTS["x"], "shape": [RESHAPE_INPUTS["shape"]] * 2}
answer([build(reshape, inputs) for inputs in (RESHAPE_INPUTS, two, shared)])
"""
    one, two, shared = built(code)
    assert two > one
    assert shared > one


def test_the_network_is_strongly_typed_and_tf32_is_off() -> None:
    code = """
import tensorrt_rtx as trt
seen = []
def graph(network):
    seen.append(network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    reshape(network)
build_with = trt.Builder.build_serialized_network
def watched(builder, network, config):
    seen.append(config.get_flag(trt.BuilderFlag.TF32))
    return build_with(builder, network, config)
trt.Builder.build_serialized_network = watched
fresh = trt.Builder(trt.Logger()).create_builder_config().get_flag(trt.BuilderFlag.TF32)
size = build(graph, RESHAPE_INPUTS)
answer([fresh, *seen, size > 0])
"""
    assert built(code) == [True, True, False, True]


MISFITS = {
    "undeclared": (
        "{k: v for k, v in RESHAPE_INPUTS.items() if k == 'x'}",
        "ValueError: input 'shape' of the graph is not declared in EngineBuild.inputs",
    ),
    "unknown": (
        "RESHAPE_INPUTS | {'z': InputShape.fixed(())}",
        "ValueError: input 'z' is declared, and the graph has only 'x', 'shape'",
    ),
    "rank": (
        "RESHAPE_INPUTS | {'x': InputShape.fixed((1, 1, 8))}",
        "ValueError: input 'x' has shape (-1, 8) in the graph; (1, 1, 8) to (1, 1, 8) is declared",
    ),
    "extent": (
        "RESHAPE_INPUTS | {'x': InputShape.ranged((1, 7), (2, 8), (4, 8))}",
        "ValueError: input 'x' has shape (-1, 8) in the graph; (1, 7) to (4, 8) is declared",
    ),
    "extent of one profile": (
        "RESHAPE_INPUTS | {'x': [RESHAPE_INPUTS['x'], InputShape.fixed((1, 9))]}",
        "ValueError: input 'x' has shape (-1, 8) in the graph; (1, 9) to (1, 9) is declared",
    ),
    "shape for values": (
        "RESHAPE_INPUTS | {'shape': InputShape.fixed((2,))}",
        (
            "ValueError: input 'shape' is used as a shape by the graph: "
            "declare its values, InputShape.values(min, opt, max)"
        ),
    ),
    "number of values": (
        "RESHAPE_INPUTS | {'shape': InputShape.values((1,), (1,), (1,))}",
        "ValueError: input 'shape' has shape (2,) and 1 values declared",
    ),
    "values for shape": (
        "RESHAPE_INPUTS | {'x': InputShape.values((1,), (1,), (1,))}",
        (
            "ValueError: input 'x' is a shape tensor of type FLOAT; it must be INT32 or INT64\n"
            "input 'x' is a shape tensor of shape (-1, 8); it must be () or (n,), n <= 64\n"
            "input 'x' is declared by its values, and the graph uses it as no shape"
        ),
    ),
}


@pytest.fixture(scope="module")
def misfits() -> dict[str, str]:
    """What came of each of MISFITS: none gets as far as a build, so one process will do."""
    cases = ", ".join(f"{name!r}: build(reshape, {inputs})" for name, (inputs, _) in MISFITS.items())
    answers: dict[str, str] = built(f"answer({{{cases}}})")
    return answers


@pytest.mark.parametrize("case", MISFITS)
def test_a_declaration_that_does_not_fit_the_graph_is_refused_by_name(misfits: dict[str, str], case: str) -> None:
    assert misfits[case] == MISFITS[case][1]


SHAPE_OUTPUTS = """
def graph(dtype, shape):
    def fill(network):
        output = network.add_identity(network.add_input("x", type_of(network, dtype), shape)).get_output(0)
        output.name = "s"
        network.mark_output_for_shapes(output)
    return fill
values = InputShape.values([1], [1], [1])
answer([build(graph(*case), {"x": values}) for case in [("FLOAT", (1,)), ("INT64", (65,)), ("INT64", (2, 3))]])
"""


def test_a_shape_output_that_tensorrt_has_no_place_for_is_refused_before_the_build() -> None:
    """It fails on them in assertions of its own."""
    wrong_type, too_many, two_axes = built(SHAPE_OUTPUTS)
    assert "output 's' is a shape tensor of type FLOAT; it must be INT32 or INT64" in wrong_type
    assert "output 's' is a shape tensor of shape (65,); it must be () or (n,), n <= 64" in too_many
    assert "output 's' is a shape tensor of shape (2, 3); it must be () or (n,), n <= 64" in two_axes


def test_a_failed_build_shows_what_tensorrt_said() -> None:
    code = """
def graph(network):
    network.add_input("x", type_of(network, "FLOAT"), (2,))
answer(build(graph, {"x": InputShape.fixed((2,))}))
"""
    refusal = built(code)
    assert refusal.startswith("EngineBuildError: tensorrt_rtx ")
    assert "could not build the engine; TensorRT logged:\n" in refusal
    assert "Network must have at least one output" in refusal


def test_what_the_graph_function_raises_reaches_the_caller() -> None:
    assert built("answer(build(lambda network: 1 / 0, {}))") == "ZeroDivisionError: division by zero"


def test_what_the_graph_function_returns_lives_until_the_engine_is_built() -> None:
    code = """
import weakref
import tensorrt_rtx as trt
class Kept: pass
def graph(network):
    reshape(network)
    kept = Kept()
    graph.alive = weakref.ref(kept)
    return kept
build_with = trt.Builder.build_serialized_network
def watched(builder, network, config):
    graph.during = graph.alive() is not None
    return build_with(builder, network, config)
trt.Builder.build_serialized_network = watched
size = build(graph, RESHAPE_INPUTS)
answer([graph.during, graph.alive() is None, size > 0])
"""
    assert built(code) == [True, True, True]


def test_settings_reach_tensorrt() -> None:
    code = """
import tensorrt_rtx as trt
settings = BuilderSettings(
    workspace_limit=1 << 20, optimization_level=2, aliased_plugin_io=True, compute_capabilities=("sm89", "sm120")
)
seen = []
build_with = trt.Builder.build_serialized_network
def watched(builder, network, config):
    seen.extend([
        config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE),
        config.builder_optimization_level,
        config.get_preview_feature(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03),
        [config.get_compute_capability(index).name for index in range(config.num_compute_capabilities)],
    ])
    return build_with(builder, network, config)
trt.Builder.build_serialized_network = watched
answer([build(reshape, RESHAPE_INPUTS, settings=settings) > 0, seen])
"""
    assert built(code) == [True, [1 << 20, 2, True, ["SM89", "SM120"]]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("timing_cache='a'", "timing_cache = 'a': tensorrt_rtx .* has no timing caches"),
        ("version_compatible=True", "version_compatible = True: tensorrt_rtx .* has no lean runtime"),
        (
            "hardware_compatibility='ampere_plus'",
            "hardware_compatibility = 'ampere_plus': .*compute_capabilities instead",
        ),
        (
            "compute_capabilities=['sm90']",
            r"compute_capabilities = \('sm90',\): tensorrt_rtx .* has .*sm86, sm89, sm120",
        ),
    ],
)
def test_what_tensorrt_rtx_lacks_is_refused_by_name(settings: str, message: str) -> None:
    declaration = EngineBuild(
        precision="fp16",
        inputs={},
        settings=BuilderSettings(**eval(f"dict({settings})")),  # noqa: S307 - of the table
        runtime="tensorrt_rtx",
    )
    with pytest.raises(ValueError, match=message):
        build_serialized_engine(lambda _network: None, declaration)


def test_an_onnx_model_with_a_plugin_is_built_in_the_process_at_hand(example_library: Path) -> None:
    code = "answer(build(onnx_graph(example_model(epsilon=1e-5)), EXAMPLE_INPUTS, sys.argv[1:]))"
    assert built(code, example_library) > 1000


def test_plugins_are_embedded_only_on_request(example_library: Path) -> None:
    code = """
graph = onnx_graph(example_model())
plain, embedded = [
    build(graph, EXAMPLE_INPUTS, sys.argv[1:], BuilderSettings(embed_plugins=embed)) for embed in (False, True)
]
answer([plain, embedded])
"""
    plain, embedded = built(code, example_library)
    assert plain < 100_000
    assert embedded > plain + example_library.stat().st_size // 2


def test_the_library_that_the_caller_names_is_embedded(example_library: Path, tmp_path: Path) -> None:
    """It was registered from another file, which is gone."""
    first = shutil.copyfile(example_library, tmp_path / "libfirst.so")
    code = """
first, *libraries = sys.argv[1:]
register_plugins([first])
__import__("os").unlink(first)
answer(build(onnx_graph(example_model()), EXAMPLE_INPUTS, libraries, BuilderSettings(embed_plugins=True)))
"""
    assert built(code, first, example_library) > example_library.stat().st_size // 2


def test_a_library_that_is_replaced_while_it_is_embedded_is_an_error(example_library: Path, tmp_path: Path) -> None:
    copy, other = [shutil.copyfile(example_library, tmp_path / name) for name in ("libcopy.so", "libother.so")]
    with other.open("ab") as file:
        file.write(b"another")
    code = """
library, other = sys.argv[1:]
model = onnx_graph(example_model())
def graph(network):
    __import__("os").replace(other, library)
    return model(network)
answer(build(graph, EXAMPLE_INPUTS, [library], BuilderSettings(embed_plugins=True)))
"""
    assert built(code, copy, other) == f"PluginLibraryError: {copy}: was replaced while it was embedded"


def test_a_plugin_that_refuses_says_so_in_the_error(example_library: Path) -> None:
    code = "answer(build(onnx_graph(example_model(epsilon=-1.0)), EXAMPLE_INPUTS, sys.argv[1:]))"
    refusal = built(code, example_library)
    assert refusal.startswith("EngineBuildError: ")
    assert "AddRmsNorm: createPlugin: field epsilon is -1; it must be in [0, 3.4028235e+38]" in refusal


def test_a_plugin_that_is_not_there_is_to_be_named_in_plugins(example_library: Path) -> None:
    code = """
library = sys.argv[1]
missing = build(onnx_graph(example_model()), EXAMPLE_INPUTS)
answer([missing, build(onnx_graph(example_model(plugin_version="2")), EXAMPLE_INPUTS, [library])])
"""
    missing, other_version = built(code, example_library)
    assert missing.splitlines()[-1] == (
        "No registered plugin has the name AddRmsNorm. Where the engine is built or opened, name the library that has "
        "it: plugins=[plugin_library(PACKAGE)]."
    )
    assert other_version.splitlines()[-1] == (
        "Registered is plugin AddRmsNorm version 1: set the node's plugin_version and plugin_namespace to it."
    )


def test_a_plugin_library_that_is_missing_is_named_before_the_graph_is_asked() -> None:
    refusal = built("answer(build(lambda network: 1 / 0, {}, ['/absent/libx.so']))")
    assert refusal == "PluginLibraryError: /absent/libx.so: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("build_serialized_engine(3, declaration)", "TypeError: graph must be a function of a network, not 3"),
        ("build_serialized_engine(reshape, {})", "TypeError: declaration must be an EngineBuild, not {}"),
        (
            "build_serialized_engine(reshape, declaration, runtime_cache='a')",
            "TypeError: build_serialized_engine has no option 'runtime_cache': ",
        ),
        (
            "build_serialized_engine(reshape, declaration)",
            "ValueError: runtime 'tensorrt_lean' executes engines and builds none",
        ),
    ],
)
def test_a_wrong_call_is_refused(call: str, message: str) -> None:
    code = f"""
declaration = EngineBuild(precision="fp16", inputs=RESHAPE_INPUTS, runtime="tensorrt_lean")
answer(attempt(lambda: {call}))
"""
    assert built(code).startswith(message)


def test_progress_is_shown_on_a_terminal_only() -> None:
    code = f"{PRELUDE}answer(build(reshape, RESHAPE_INPUTS))"
    quiet, shown = run_code(code), run_code(code, on_terminal=True)
    assert quiet.answer() == shown.answer() > 1000
    assert "Building engine" not in quiet.stderr
    assert "Building engine" in shown.stderr


CANCEL = """
import logging, os, signal
class Interrupting(logging.Handler):
    def emit(self, record):
        if "engine build" in record.getMessage() or "timing cache in use" in record.getMessage():
            os.kill(os.getpid(), signal.SIGINT)
logger = logging.getLogger("hatch_tensoracle.tensorrt")
logger.setLevel(logging.INFO)
logger.addHandler(Interrupting())
logger.propagate = False
try:
    build(reshape, RESHAPE_INPUTS)
    outcome = "built"
except KeyboardInterrupt:
    outcome = "cancelled"
answer([outcome, signal.getsignal(signal.SIGINT) is signal.default_int_handler])
"""


def test_ctrl_c_cancels_the_build() -> None:
    assert built(CANCEL) == ["cancelled", True]


class Binding(ModuleType):
    """A binding called `tensorrt`, as far as a build gets without a GPU; `Builder` is the test's."""

    def __init__(self, builder: Callable[..., object]) -> None:
        super().__init__("tensorrt")
        self.Builder = builder
        self.ILogger = type("ILogger", (), {})
        self.NetworkDefinitionCreationFlag = type("NetworkDefinitionCreationFlag", (), {})
        self.BuilderFlag = SimpleNamespace(TF32="TF32")
        self.__version__ = "12.0"


def build_with(builder: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setitem(sys.modules, "tensorrt", Binding(builder))
    declaration = EngineBuild(precision="fp32", inputs={}, runtime="tensorrt")
    return build_serialized_engine(lambda _network: None, declaration)


def test_tensorrt_without_a_gpu_is_a_failed_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def builder(logger: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    with pytest.raises(EngineBuildError, match=r"tensorrt 12\.0 .* has no builder here") as caught:
        build_with(builder, monkeypatch)
    assert caught.value.messages == ("CUDA initialization failure with error: 35",)


def test_a_release_whose_networks_are_all_strongly_typed_has_no_flag_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a profile that TensorRT refuses is named."""
    flags = []

    def network(given: int) -> SimpleNamespace:
        flags.append(given)
        return SimpleNamespace(num_inputs=0, num_outputs=0, num_layers=0, get_input=None, get_output=None)

    config = SimpleNamespace(clear_flag=lambda _flag: None, add_optimization_profile=lambda _profile: -1)
    builder = SimpleNamespace(
        create_network=network,
        create_builder_config=lambda: config,
        create_optimization_profile=lambda: None,
    )
    with pytest.raises(EngineBuildError, match="optimization profile 0 is refused"):
        build_with(lambda _logger: builder, monkeypatch)
    assert flags == [0]
