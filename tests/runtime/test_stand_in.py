"""The stand-in has the classes, methods and enumerations of the real binding, which says them in its docstrings."""

from __future__ import annotations

import enum
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from runtime import stand_in

CLASSES = [
    found
    for found in vars(stand_in).values()
    if inspect.isclass(found) and found.__module__ == stand_in.__name__ and found is not stand_in.Kernels
]
LEAN = ("10.15.1.29", "11.4.0.106")
"""The oldest and the newest that can be had."""
DESCRIBE = """
import importlib, json, sys
binding = importlib.import_module(sys.argv[1])
def described(owner, names):
    found = {}
    for name in names:
        member = getattr(owner, name, None)
        is_property = isinstance(member, property)
        found[name] = {
            "kind": "missing" if member is None else "property" if is_property else "other",
            "settable": is_property and member.fset is not None,
            "doc": getattr(member, "__doc__", None) or "",
            "value": getattr(member, "value", None) if hasattr(owner, "__members__") else None,
        }
    return found
wanted = json.loads(sys.argv[2])
result = {}
for path, names in wanted.items():
    owner = binding
    for part in filter(None, path.split(".")):
        owner = getattr(owner, part, None)
    result[path] = {"doc": owner.__doc__ or "", "members": described(owner, names)} if owner is not None else None
print(json.dumps(result))
"""


def members(class_: type) -> Iterator[str]:
    """Names of what the binding's class must have too."""
    for name, member in vars(class_).items():
        is_enumeration = isinstance(member, enum.Enum) or (isinstance(member, type) and issubclass(member, enum.Enum))
        is_public = isinstance(member, property) or (inspect.isfunction(member) and not name.startswith("_"))
        if is_enumeration or is_public:
            yield name


WANTED = {class_.__qualname__: list(members(class_)) for class_ in CLASSES} | {
    "ILogger.Severity": [severity.name for severity in stand_in.ILogger.Severity],
    "": ["get_plugin_registry", "float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8"],
}
RTX_ONLY = {
    *("CudaGraphStrategy", "DynamicShapesKernelSpecializationStrategy", "IRuntimeCache", "IRuntimeConfig"),
    *(
        f"IRuntimeConfig.{name}"
        for name in (
            *("cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy"),
            *("create_runtime_cache", "set_runtime_cache"),
        )
    ),
    "ICudaEngine.create_runtime_config",
    "IExecutionContext.is_stream_capturable",
}
"""What a TensorRT that is no TensorRT-RTX may lack."""
APPLICATIONS_OWN = {("ILogger", "log"), ("Logger", "log")}
"""What the application implements, and what a class of the binding does not show as its own."""


@pytest.fixture(scope="module", params=["tensorrt_rtx", *LEAN])
def binding(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What a real binding says of the same names, each in a process of its own."""
    name, environment = request.param, dict(os.environ)
    if name != "tensorrt_rtx":
        site = tmp_path_factory.mktemp("lean")
        packages = [f"tensorrt-lean-cu13{part}=={name}" for part in ("-libs", "-bindings")]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), *packages]
        subprocess.run(install, check=True, capture_output=True)
        name, environment["PYTHONPATH"] = "tensorrt_lean_bindings", str(site)
    command = [sys.executable, "-c", DESCRIBE, name, json.dumps(WANTED)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {"name": name, **json.loads(done.stdout.splitlines()[-1])}


def signatures(doc: str, method: str) -> list[list[tuple[str, str]]]:
    """Parameters, each with its type, of every overload that a pybind11 docstring lists; `self` is left out."""
    found = re.findall(rf"(?:^|\n)(?:\s*\d+\. )?{method}\((self: .*?)\) -> ", doc)
    bare = [re.sub(r" = (<.*?>|\w+)", "", text) for text in found]
    parameters = [re.findall(r"(\w+): ([\w.:\[\]]+)", text.partition(",")[2]) for text in bare]
    return [[(name, normalised(type_)) for name, type_ in each] for each in parameters]


def normalised(type_: str) -> str:
    """A type as both sides spell it."""
    last = type_.replace("::", ".").rpartition(".")[2]
    known = {"SupportsInt": "int", "Buffer": "Any", "buffer": "Any"}
    return known.get(last, last)


def parameters_of(function: Any) -> list[tuple[str, str]]:
    """The same of a method of the stand-in."""
    listed = list(inspect.signature(function).parameters.values())[1:]
    return [(each.name, normalised(str(each.annotation).removesuffix(" | None").partition("[")[0])) for each in listed]


def test_every_class_and_member_is_in_the_binding(binding: Mapping[str, Any]) -> None:
    missing = []
    for path, names in WANTED.items():
        if binding[path] is None:
            missing.append(path)
            continue
        missing += [
            f"{path}.{name}"
            for name in names
            if binding[path]["members"][name]["kind"] == "missing" and (path, name) not in APPLICATIONS_OWN
        ]
    # A runtime without a builder shows no formats; all that the stand-in has is in a full one.
    allowed = set() if binding["name"] == "tensorrt_rtx" else {"TensorFormat", *RTX_ONLY}
    assert set(missing) <= allowed


def test_methods_have_the_binding_s_parameters(binding: Mapping[str, Any]) -> None:
    wrong, compared = [], 0
    for class_ in CLASSES:
        for name in WANTED[class_.__qualname__]:
            if not inspect.isfunction(vars(class_).get(name)) or (class_.__name__, name) in APPLICATIONS_OWN:
                continue
            if binding["name"] != "tensorrt_rtx" and _is_rtx_s(class_.__name__, name):
                continue
            ours, theirs = parameters_of(vars(class_)[name]), signatures(_doc(binding, class_.__qualname__, name), name)
            compared += 1
            if ours not in theirs:
                wrong.append((class_.__name__, name, ours, theirs))
    assert wrong == []
    assert compared > 20


def test_contexts_are_also_made_from_a_runtime_config(binding: Mapping[str, Any]) -> None:
    """The stand-in's one method has both forms of the binding's."""
    if binding["name"] != "tensorrt_rtx":
        pytest.skip("runtime configurations are TensorRT-RTX's")
    doc = _doc(binding, "ICudaEngine", "create_execution_context")
    assert signatures(doc, "create_execution_context")[1] == [("runtime_config", "IRuntimeConfig")]


def test_settings_can_be_set(binding: Mapping[str, Any]) -> None:
    if binding["name"] != "tensorrt_rtx":
        pytest.skip("runtime settings are TensorRT-RTX's")
    members_ = binding["IRuntimeConfig"]["members"]
    for name in ("cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy"):
        assert members_[name]["settable"]


def test_a_refused_cache_is_documented_to_change_nothing(binding: Mapping[str, Any]) -> None:
    if binding["name"] != "tensorrt_rtx":
        pytest.skip("runtime caches are TensorRT-RTX's")
    assert "leaving this cache unchanged" in _doc(binding, "IRuntimeCache", "deserialize")


def test_properties_are_properties(binding: Mapping[str, Any]) -> None:
    wrong = [
        (path, name)
        for class_ in CLASSES
        for path, name in ((class_.__qualname__, name) for name in WANTED[class_.__qualname__])
        if isinstance(vars(class_).get(name), property)
        and binding[path] is not None
        and (binding["name"] == "tensorrt_rtx" or not _is_rtx_s(path, name))
        and binding[path]["members"][name]["kind"] != "property"
    ]
    assert wrong == []


def test_enumerations_have_the_binding_s_numbers(binding: Mapping[str, Any]) -> None:
    enumerations = [class_ for class_ in CLASSES if issubclass(class_, enum.Enum)] + [stand_in.ILogger.Severity]
    for class_ in enumerations:
        if binding[class_.__qualname__] is not None:
            theirs = binding[class_.__qualname__]["members"]
            assert {each.name: each.value for each in class_} == {
                each.name: theirs[each.name]["value"] for each in class_
            }


def test_what_an_application_implements_is_in_the_documents(binding: Mapping[str, Any]) -> None:
    """The binding calls these by name; it declares none of them."""
    assert "def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):" in _doc(
        binding, "IOutputAllocator"
    )
    assert "def notify_shape(self, tensor_name, shape):" in _doc(binding, "IOutputAllocator")


def test_a_profile_s_values_are_asked_for_by_profile_first(binding: Mapping[str, Any]) -> None:
    """The binding's names for the two parameters are exchanged: a caller who trusts them gets a TypeError."""
    (found,) = signatures(_doc(binding, "ICudaEngine", "get_tensor_profile_values"), "get_tensor_profile_values")
    assert [type_ for _, type_ in found] == ["int", "str"]


def test_the_comparison_sees_a_difference() -> None:
    doc = "f(*args, **kwargs)\nOverloaded function.\n\n1. f(self: a.B, name: str, memory: typing.SupportsInt) -> bool\n"
    assert signatures(doc, "f") == [[("name", "str"), ("memory", "int")]]
    assert parameters_of(stand_in.IExecutionContext.set_tensor_address) == [("name", "str"), ("memory", "int")]
    assert signatures(doc, "f") != [parameters_of(stand_in.IExecutionContext.set_input_shape)]


def _is_rtx_s(path: str, name: str) -> bool:
    return path in RTX_ONLY or f"{path}.{name}" in RTX_ONLY


def _doc(binding: Mapping[str, Any], path: str, name: str | None = None) -> str:
    found = binding[path]
    doc: str = found["members"][name]["doc"] if name else found["doc"]
    return doc
