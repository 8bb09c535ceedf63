"""Does one thing with real TensorRT and prints what happened: a JSON description in, a JSON result out.

Run in a process of its own, since a failed build can poison the next one. Keys of the description, all but the first
optional:

`runtimes`: names of Python packages, of which each gets a logger where that is possible without a GPU.
`libraries`: files to load into each registry.
`create`: for each, `runtime`, `plugin` and `fields`, whose values are `[name, NumPy type, values, field type]`.
`build`: `plugin`, `inputs` and `outputs` as `{name: [ONNX type, shape]}`, `attributes` as `{name: [ONNX type, value]}`,
`profile` as `{input: [least, optimal, greatest shape]}`; by TensorRT-RTX.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

KEPT: list[Any] = []
"""Loggers, which TensorRT does not keep although it logs to the end, and a lean runtime, which without a GPU cannot be
destroyed: 11.4 crashes."""


def main() -> None:
    """Read the description from the command line; the last line of stdout is the result."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    runtimes = {name: importlib.import_module(name) for name in wanted["runtimes"]}
    log: list[tuple[str, str, str]] = []
    makers = {name: _maker(name, trt, log) for name, trt in runtimes.items()}
    registries = {name: trt.get_plugin_registry() for name, trt in runtimes.items()}
    result: dict[str, Any] = {"log": log}
    result["loaded"] = {
        name: [registry.load_library(library) is not None for library in wanted.get("libraries", ())]
        for name, registry in registries.items()
    }
    result["creators"] = {
        name: [_described(creator) for creator in registry.all_creators] for name, registry in registries.items()
    }
    result["created"] = []
    for item in wanted.get("create", ()):
        before = len(log)
        made = _create(runtimes[item["runtime"]], registries[item["runtime"]], item)
        result["created"].append({"made": made, "log": log[before:]})
    if "build" in wanted:
        _build(runtimes["tensorrt_rtx"], makers["tensorrt_rtx"], wanted["build"], result)
    print(f"\n{json.dumps(result)}")  # noqa: T201 - the answer


def _maker(name: str, trt: Any, log: list[tuple[str, str, str]]) -> Any:
    """Give the runtime a logger: with a builder, or with a runtime where there is no builder."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            log.append((name, severity.name, message))

    logger = Logger()
    maker = (trt.Builder if hasattr(trt, "Builder") else trt.Runtime)(logger)
    KEPT.extend((logger, maker))
    return maker


def _described(creator: Any) -> dict[str, Any]:
    fields = [[field.name, field.type.name] for field in creator.field_names or ()]
    return {
        "name": creator.name,
        "version": creator.plugin_version,
        "namespace": creator.plugin_namespace,
        "fields": fields,
    }


def _create(trt: Any, registry: Any, item: dict[str, Any]) -> bool:
    import numpy as np

    fields = [
        trt.PluginField(name, np.array(values, dtype), getattr(trt.PluginFieldType, type_))
        for name, dtype, values, type_ in item["fields"]
    ]
    creator = registry.get_creator(item["plugin"], "1", "")
    plugin = creator.create_plugin("", trt.PluginFieldCollection(fields), trt.TensorRTPhase.BUILD)
    return plugin is not None


def _build(trt: Any, builder: Any, wanted: dict[str, Any], result: dict[str, Any]) -> None:
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    result["parsed"] = parser.parse(_model(wanted))
    result["parse_errors"] = [str(parser.get_error(i)) for i in range(parser.num_errors)]
    result["plan_bytes"] = None
    if not result["parsed"]:
        return
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)  # on by default in TensorRT-RTX
    profile = builder.create_optimization_profile()
    for name, shapes in wanted.get("profile", {}).items():
        profile.set_shape(name, *shapes)
    config.add_optimization_profile(profile)
    result["outputs"] = {
        tensor.name: [tensor.dtype.name, list(tensor.shape)]
        for tensor in (network.get_output(i) for i in range(network.num_outputs))
    }
    plan = builder.build_serialized_network(network, config)
    result["plan_bytes"] = plan.nbytes if plan is not None else None


def _model(wanted: dict[str, Any]) -> bytes:
    """A model of one node whose operator type is the plugin's name."""
    from onnx import AttributeProto, TensorProto, helper

    def tensors(given: dict[str, Any]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, getattr(TensorProto, type_), shape)
            for name, (type_, shape) in given.items()
        ]

    node = helper.make_node(wanted["plugin"], list(wanted["inputs"]), list(wanted["outputs"]))
    for name, (type_, value) in wanted.get("attributes", {}).items():
        node.attribute.append(helper.make_attribute(name, value, attr_type=getattr(AttributeProto, type_)))
    graph = helper.make_graph([node], "model", tensors(wanted["inputs"]), tensors(wanted["outputs"]))
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


if __name__ == "__main__":
    main()
