"""Opening engines: which are built, which are found, and what is said if one is not what was asked for.

TensorRT is its stand-in where an engine is deserialised, which needs a GPU; what TensorRT-RTX does on the CPU it does.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.waiting import wait_until

from hatch_tensoracle.runtime import BuilderSettings, EngineBuild, EngineIO, InputShape, TensorSpec
from hatch_tensoracle.runtime import engine as engine_module
from hatch_tensoracle.runtime.cache import EngineCache
from hatch_tensoracle.runtime.distribution import distribution
from hatch_tensoracle.runtime.errors import CorruptEngineError, EngineCacheError, EngineConditionError, EngineIOError
from hatch_tensoracle.runtime.needed_creators import missing_creators, used_creators
from hatch_tensoracle.runtime.plugin_creators import CreatorKey
from runtime import stand_in
from runtime.conditions import DECLARATION, GPU
from runtime.opening import IO, TENSORS, opened_example
from runtime.processes import run_code

CREATOR = CreatorKey("AddRmsNorm", "1", "")

pytestmark = pytest.mark.usefixtures("cache", "tensorrt")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    os.utime(file, (1, 1))
    return file


class Graph:
    """Counts its calls, each of which does what is given."""

    def __init__(self, does: Callable[[Any], object] = lambda _network: None) -> None:
        self.calls = 0
        self.does = does

    def __call__(self, network: Any) -> None:
        """Build."""
        self.calls += 1
        self.does(network)


def with_tensors(**tensors: Any) -> Graph:
    """A graph of other tensors than the example's."""
    return Graph(lambda network: setattr(network, "plan", stand_in.plan(TENSORS | tensors)))


def test_the_graph_function_is_called_to_build_only(cache: EngineCache) -> None:
    graph = Graph()
    built, found = opened_example(graph), opened_example(graph)
    assert graph.calls == 1
    assert (built.was_built, found.was_built) == (True, False)
    assert built.path == found.path
    assert [entry.path for entry in cache.engines()] == [built.path]
    assert found.engine.num_io_tensors == 2
    assert (found.runtime.logger, found.distribution.name) == (found.distribution.logger, "tensorrt")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"name": "other"}, id="name"),
        pytest.param({"graph_version": "2"}, id="graph version"),
        pytest.param({"declaration": dataclasses.replace(DECLARATION, precision="bf16")}, id="declaration"),
        pytest.param({"gpu": dataclasses.replace(GPU, l2_bytes=1)}, id="GPU"),
    ],
)
def test_another_condition_is_another_engine(changed: dict[str, Any]) -> None:
    graph = Graph()
    opened_example(graph)
    opened_example(graph, **changed)
    assert graph.calls == 2


def test_other_weights_are_another_engine_and_the_old_one_stays(weights: Path) -> None:
    graph = Graph()
    opened_example(graph, weights=[weights])
    weights.write_bytes(b"WEIGHTS")
    opened_example(graph, weights=[weights])
    weights.write_bytes(b"weights")
    assert not opened_example(graph, weights=[weights]).was_built
    assert graph.calls == 2


def test_another_plugin_library_is_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by digests as registration gives them; nothing is registered."""
    graph = Graph()
    for digest, was_built in [("1" * 64, True), ("2" * 64, True), ("1" * 64, False)]:
        library = SimpleNamespace(sha256=digest)
        monkeypatch.setattr(engine_module, "register_plugins", lambda *_, library=library: (library,))
        assert opened_example(graph, plugins=["libexample.so"]).was_built == was_built
    assert graph.calls == 2


def test_another_version_of_tensorrt_is_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    opened_example(graph)
    newer = dataclasses.replace(distribution("tensorrt"), version="11.2.1.3")
    monkeypatch.setattr(engine_module, "distribution", lambda _name: newer)
    opened_example(graph)
    assert graph.calls == 2


def test_io_is_no_condition() -> None:
    graph = Graph()
    opened_example(graph)
    opened_example(graph, io=dataclasses.replace(IO, outputs={"y": TensorSpec("fp16", (-1, 2), location="device")}))
    assert graph.calls == 1


def test_no_weight_is_read_on_a_hit(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_example(weights=[weights])
    monkeypatch.setattr(Path, "open", no_weights(Path.open))
    assert not opened_example(weights=[weights]).was_built
    with pytest.raises(AssertionError, match="safetensors is opened"):
        opened_example(weights=[weights], force_rebuild=True)


def no_weights(opening: Callable[..., Any]) -> Callable[..., Any]:
    def checked(path: Path, *arguments: Any, **options: Any) -> Any:
        assert path.suffix != ".safetensors", f"{path} is opened"
        return opening(path, *arguments, **options)

    return checked


def test_force_rebuild_replaces_the_engine_and_believes_no_digest(cache: EngineCache, weights: Path) -> None:
    graph = Graph()
    first = opened_example(graph, weights=[weights])
    assert opened_example(graph, weights=[weights], force_rebuild=True).path == first.path
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, (1, 1))
    assert opened_example(graph, weights=[weights]).path == first.path  # the documented risk
    forced = opened_example(graph, weights=[weights], force_rebuild=True)
    assert forced.path != first.path
    assert opened_example(graph, weights=[weights]).path == forced.path
    assert graph.calls == 3
    assert len(cache.engines()) == 2


def test_weights_that_change_while_the_engine_is_built_are_an_error(cache: EngineCache, weights: Path) -> None:
    graph = Graph(lambda _network: weights.write_bytes(b"WEIGHTS"))
    with pytest.raises(EngineConditionError, match=r"weights\[0\] changed while the engine was built") as caught:
        opened_example(graph, weights=[weights])
    assert caught.value.field == "weights[0]"
    assert cache.engines() == []


def test_a_failed_build_saves_nothing(cache: EngineCache) -> None:
    def fail(_network: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened_example(fail)
    assert cache.engines() == []
    assert opened_example().was_built


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"name": ""}, ValueError, "name is empty", id="empty name"),
        pytest.param({"graph_version": 1}, TypeError, "graph_version must be text, not 1", id="number"),
        pytest.param({"weights": "model"}, TypeError, "weights must be a sequence of files", id="one path"),
        pytest.param({"weights": iter(())}, TypeError, "weights must be a sequence of files", id="iterator"),
        pytest.param({"plugins": Path("x.so")}, TypeError, "plugins must be a sequence of files", id="one library"),
        pytest.param({"runtime_cache": "x"}, TypeError, "RuntimeSettings", id="option that moved"),
        pytest.param({"weigths": ()}, TypeError, "no option 'weigths'", id="misspelt"),
        pytest.param({"declaration": {}}, TypeError, "declaration must be an EngineBuild", id="declaration"),
        pytest.param({"io": {}}, TypeError, "io must be an EngineIO", id="io"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_is_built(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    graph = Graph()
    with pytest.raises(error, match=message):
        opened_example(graph, **options)
    assert graph.calls == 0


# What is saved is not what was asked for


def test_a_damaged_engine_is_an_error_until_it_is_built_again() -> None:
    path = opened_example().path
    path.write_bytes(path.read_bytes()[:-1])
    graph = Graph()
    with pytest.raises(CorruptEngineError, match=str(path)):
        opened_example(graph)
    assert graph.calls == 0
    assert opened_example(graph, force_rebuild=True).was_built
    assert not opened_example(graph).was_built


def test_a_plan_that_tensorrt_refuses_is_an_error_with_its_words() -> None:
    graph = Graph(lambda network: setattr(network, "plan", b"no plan"))
    for _ in range(2):  # it is saved: that building it again would help is not known
        with pytest.raises(CorruptEngineError, match="the stand-in cannot deserialise this plan") as caught:
            opened_example(graph)
    assert "plugins=..." in str(caught.value)
    assert graph.calls == 1


def test_a_version_compatible_plan_may_run_its_own_code() -> None:
    settings = BuilderSettings(version_compatible=True)
    handle = opened_example(declaration=dataclasses.replace(DECLARATION, settings=settings))
    assert handle.runtime.engine_host_code_allowed
    assert not opened_example().runtime.engine_host_code_allowed


X, Y = TensorSpec("fp16", (-1, 2)), TensorSpec("fp16", (-1, 2))


@pytest.mark.parametrize(
    ("io", "tensor", "field", "seen", "expected"),
    [
        pytest.param(EngineIO(inputs={"x": X}, outputs={}), "y", "mode", "output", "none", id="more"),
        pytest.param(EngineIO(inputs={"x": X, "z": X}, outputs={"y": Y}), "z", "mode", "none", "input", id="fewer"),
        pytest.param(EngineIO(inputs={"x": X, "y": Y}, outputs={}), "y", "mode", "output", "input", id="mode"),
        pytest.param(
            EngineIO(inputs={"x": TensorSpec("bf16", (-1, 2))}, outputs={"y": Y}),
            "x",
            "dtype",
            "fp16",
            "bf16",
            id="dtype",
        ),
        pytest.param(
            EngineIO(inputs={"x": X}, outputs={"y": TensorSpec("fp16", (8, 2))}),
            "y",
            "shape",
            (-1, 2),
            (8, 2),
            id="shape",
        ),
        pytest.param(
            EngineIO(inputs={"x": TensorSpec("fp16", (-1, 2), location="host")}, outputs={"y": Y}),
            *("x", "location", "device", "host"),
            id="location",
        ),
        pytest.param(
            EngineIO(inputs={"x": X}, outputs={"y": TensorSpec("fp16", (-1, 2), format="HWC8")}),
            *("y", "format", "LINEAR", "HWC8"),
            id="format",
        ),
    ],
)
def test_a_tensor_that_is_not_as_declared_is_named(
    io: EngineIO, tensor: str, field: str, seen: object, expected: object
) -> None:
    path = opened_example().path
    with pytest.raises(EngineIOError) as caught:
        opened_example(io=io)
    error = caught.value
    assert (error.tensor, error.field, error.seen, error.expected) == (tensor, field, seen, expected)
    assert error.file == str(path)
    assert isinstance(error, EngineCacheError)


def test_a_profile_that_is_not_as_declared_is_named() -> None:
    graph = with_tensors(x=TENSORS["x"] | {"profiles": [[(1, 2), (4, 2), (9, 2)]]})
    with pytest.raises(EngineIOError, match="tensor 'x' has profile 0"):
        opened_example(graph)
    graph = with_tensors(x=TENSORS["x"] | {"profiles": [[(1, 2), (4, 2), (8, 2)]] * 2})
    with pytest.raises(EngineIOError, match="tensor 'x' has profiles 2; 1 is declared"):
        opened_example(graph, graph_version="2")


def test_values_of_shape_tensors_are_compared() -> None:
    values = InputShape.values((1, 2), (4, 2), (8, 2))
    s = stand_in.tensor("INPUT", (2,), dtype="INT64", values=[[(1, 2), (4, 2), (8, 2)]])
    graph, spec = with_tensors(s=s), TensorSpec("i64", (2,), location="host")
    io = EngineIO(inputs={"x": X, "s": spec}, outputs={"y": Y})
    declaration = dataclasses.replace(DECLARATION, inputs={**DECLARATION.inputs, "s": values})
    assert opened_example(graph, declaration=declaration, io=io).was_built
    other = dataclasses.replace(
        declaration, inputs={**declaration.inputs, "s": InputShape.values((1, 2), (4, 2), (9, 2))}
    )
    with pytest.raises(EngineIOError, match="tensor 's' has profile 0"):
        opened_example(graph, declaration=other, io=io)


# Plugin creators


def test_a_missing_creator_is_named_before_tensorrt_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "used_creators", lambda *_: (CREATOR,))
    registry = stand_in.get_plugin_registry()
    known = SimpleNamespace(name="AddRmsNorm", plugin_version="1", plugin_namespace="")
    monkeypatch.setattr(registry, "all_creators", [known])
    path = opened_example().path
    assert not opened_example().was_built
    known.plugin_version = "2"
    stand_in.fresh()
    with pytest.raises(EngineConditionError, match="plugin AddRmsNorm version 1") as caught:
        opened_example()
    assert "open_engine(plugins=...)" in str(caught.value)
    assert (caught.value.field, caught.value.expected, caught.value.file) == ("creator", CREATOR, str(path))
    assert stand_in.JOURNAL == []


def test_a_plan_that_carries_its_plugins_needs_no_creator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "used_creators", lambda *_: (CREATOR,))
    settings = BuilderSettings(version_compatible=True, embed_plugins=True)
    assert opened_example(declaration=dataclasses.replace(DECLARATION, settings=settings)).was_built


def test_creators_are_read_from_layers_of_both_kinds() -> None:
    class Layer:
        """As the binding hands them out: of a class that has no plugin, until it is given another."""

        def __init__(self, type_: str) -> None:
            self.type = type_

    core = SimpleNamespace(plugin_name="New", plugin_version="3", plugin_namespace="space")
    v3 = SimpleNamespace(get_capability_interface={"core": core}.__getitem__)
    v2 = SimpleNamespace(plugin_type="Old", plugin_version="2", plugin_namespace="")
    trt: Any = SimpleNamespace(
        LayerType=SimpleNamespace(PLUGIN_V3="v3", PLUGIN_V2="v2"),
        PluginCapabilityType=SimpleNamespace(CORE="core"),
        IPluginV3Layer=type("IPluginV3Layer", (Layer,), {"plugin": v3}),
        IPluginV2Layer=type("IPluginV2Layer", (Layer,), {"plugin": v2}),
        get_plugin_registry=lambda: SimpleNamespace(all_creators=[]),
    )
    layers = [Layer(kind) for kind in ("other", "v3", "v2", "v3")]
    network = SimpleNamespace(num_layers=4, get_layer=layers.__getitem__)
    used = used_creators(network, trt)
    assert used == (("New", "3", "space"), ("Old", "2", ""))
    assert missing_creators(used, trt) == list(used)


REAL = """
import sys
from unittest.mock import patch
sys.path.insert(0, sys.argv[1])
from hatch_tensoracle.runtime import engine
from runtime.conditions import GPU
from runtime.graphs import EXAMPLE_INPUTS, example_model
register_plugins(sys.argv[2:], "tensorrt_rtx")
declaration = EngineBuild(precision="fp16", inputs=EXAMPLE_INPUTS, runtime="tensorrt_rtx")
rows = TensorSpec("fp16", (-1, 64))
io = EngineIO(inputs={"x": rows, "residual": rows, "weight": TensorSpec("fp16", (64,))}, outputs={"y": rows, "r": rows})
with patch.object(engine, "current_gpu", lambda: GPU):
    graph = onnx_graph(example_model(epsilon=1e-5))
    answer(str(attempt(open_engine, graph, declaration, name="norm", graph_version="1", io=io)))
"""


def test_tensorrt_rtx_says_which_creators_its_network_uses(example_library: Path, cache: EngineCache) -> None:
    """It builds on the CPU. Here its plugin is registered by somebody else, then, in another process, by nobody."""
    tests = Path(__file__).parents[1]
    run_code(REAL, tests, example_library).answer()
    (saved,) = cache.engines()  # beyond it TensorRT needs a GPU
    assert saved.header is not None
    assert saved.header.creators == (CREATOR,)
    said = run_code(REAL, tests).answer()
    assert said.startswith("EngineConditionError: ")
    assert f"needs the creator of {CREATOR}, which no library has registered in this process" in said


# Documentation


def test_the_example_of_the_documentation_opens(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page.partition("\n## Open\n")[2].partition("\n## ")[0], re.DOTALL)
    shape = [(1, 8), (64, 8), (512, 8)]
    x = stand_in.tensor("INPUT", (-1, 8), profiles=[shape])
    plan = stand_in.plan({"x": x, "y": stand_in.tensor("OUTPUT", ("x.0", 8))})
    monkeypatch.chdir(weights.parent)
    monkeypatch.setattr(engine_module, "current_gpu", lambda: GPU)
    monkeypatch.setattr(engine_module, "build_serialized_engine", lambda *_, **__: plan)
    monkeypatch.setattr(engine_module, "register_plugins", lambda *_: ())
    declaration = EngineBuild(precision="fp32", inputs={"x": InputShape.ranged(*shape)}, runtime="tensorrt")
    names: dict[str, Any] = {"graph": Graph(), "declaration": declaration, "library": "libexample_plugin.so"}
    exec(code, names)  # noqa: S102 - our own
    assert names["handle"].engine.num_io_tensors == 2


# Processes


def test_16_processes_build_one_engine_once(tmp_path: Path, cache: EngineCache) -> None:
    children = started(tmp_path, 16)
    (tmp_path / "end").touch()
    assert sorted(finished(child) for child in children) == ["False"] * 15 + ["True"]
    assert len((tmp_path / "journal").read_text().split()) == 1
    (saved,) = cache.engines()
    cache.verify(saved)


def test_if_the_process_that_builds_dies_another_builds(tmp_path: Path) -> None:
    children = started(tmp_path, 4)
    builder = children.pop([child.pid for child in children].index(int((tmp_path / "journal").read_text())))
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    (tmp_path / "end").touch()
    assert sorted(finished(child) for child in children) == ["False", "False", "True"]
    assert len((tmp_path / "journal").read_text().split()) == 2


def started(directory: Path, count: int) -> list[subprocess.Popen[str]]:
    """Processes that open one engine at once, of which one builds it, until there is a file called `end`."""
    program, journal, go = Path(__file__).with_name("opening.py"), directory / "journal", directory / "go"
    command = [sys.executable, str(program), str(journal), str(go), str(directory / "end")]
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(count)
    ]
    wait_until(lambda: len(list(directory.glob("ready-*"))) == count, "all processes ready")
    go.touch()
    wait_until(lambda: journal.exists() and journal.read_text().endswith("\n"), "a process that builds")
    return children


def finished(child: subprocess.Popen[str]) -> str:
    stdout, stderr = child.communicate()
    assert child.returncode == 0, stderr
    return stdout.strip()
