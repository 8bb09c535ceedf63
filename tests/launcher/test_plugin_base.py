"""TensorRT's methods: tactics, types, formats, clones, identities, and hooks that misbehave."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from testing.child import in_child

from hatch_tensoracle.testing import (
    FormatError,
    PluginContractError,
    PluginFailedError,
    PluginHarness,
    RunningPlugin,
    Tensor,
)
from hatch_tensoracle.testing.abi import DATA_TYPES, FORMATS, DynamicTensorDesc, TensorDesc
from hatch_tensoracle.testing.plugin_object import PluginObject
from launcher.launching import X, session
from launcher.libraries import link
from launcher.records import Entry

HALF, SINGLE = Tensor("fp16", (4, 8)), Tensor("fp32", (8,))


def of(running: RunningPlugin) -> PluginObject:
    """The attached plugin itself, for calls that the harness would not make."""
    return running._plugin  # noqa: SLF001


def ints(*numbers: int) -> list[ctypes.c_int32]:
    return [ctypes.c_int32(number) for number in numbers]


# Tactics.


@in_child
def test_tactics_are_auto_and_one_for_each_configuration(library: Path) -> None:
    with session(library) as at:
        assert at.harness.create("Tuned").build([X]).tactics == (1, 2, 3, 4)
        assert at.harness.create("Weights", {"weights": [1.0]}).build([X]).tactics == ()
        plugin = of(at.make("Tuned"))
        tactics = (ctypes.c_int32 * 5)()
        assert plugin.ask("build", "GetValidTactics", tactics, *ints(3)) == -1
        assert at.harness.messages[-1].text == "Tuned: getValidTactics: is asked for 3 tactics; it has 4"


@in_child
def test_auto_chooses_by_shape_and_other_tactics_do_not(library: Path) -> None:
    with session(library) as at:
        for tactic, expected in {1: [0, 2, 0], 2: [0, 0, 0], 3: [1, 1, 1], 4: [2, 2, 2]}.items():
            running = at.make("Tuned", tactic=tactic)
            before = len(at.told("configuration "))
            for elements in (64, 1024, 65):
                at.enqueue(running, elements=elements)
            told = at.told("configuration ")[before:]
            assert told == [f"{i} for {n}" for i, n in zip(expected, (64, 1024, 65), strict=True)]
            assert [launch.block[0] for launch in at.driver.launches[-3:]] == [32 << i for i in expected]


@in_child
def test_tactic_set_after_the_shapes_takes_effect_at_once(library: Path) -> None:
    with session(library) as at:
        running = at.make("Tuned")
        assert at.told("configuration ") == []  # no shapes yet
        at.enqueue(running)
        for tactic, threads in ((4, 128), (2, 32), (3, 64), (0, 32), (1, 32)):
            running.set_tactic(tactic)
            at.enqueue(running)
            assert at.driver.launches[-1].block == (threads, 1, 1)
        assert at.told("configuration ") == [f"{i} for 64" for i in (0, 2, 0, 1, 0, 0)]


@in_child
def test_tactic_out_of_range_is_refused_and_the_last_one_stays(library: Path) -> None:
    with session(library) as at:
        running = at.make("Tuned", tactic=4)
        at.enqueue(running)
        for tactic in (-1, 5, 2**31 - 1, -(2**31)):
            with pytest.raises(PluginFailedError, match=f"setTactic: is given tactic {tactic}; it has 4"):
                running.set_tactic(tactic)
        at.enqueue(running)
        assert at.driver.launches[-1].block == (128, 1, 1)
        without = at.make("Weights", weights=[1.0])
        with pytest.raises(PluginFailedError, match="setTactic: is given tactic 1; it has 0"):
            without.set_tactic(1)


# Data types and formats.


@in_child
def test_types_are_answered_by_the_table(library: Path) -> None:
    harness = PluginHarness(library)
    table = harness.create("Table", namespace="launcher")
    assert table.output_types([HALF, SINGLE]) == ("fp16", "i32")
    assert table.output_types([SINGLE, SINGLE]) == ("fp32", "i32")
    assert (table.name, table.version, table.namespace) == ("Table", "7", "launcher")


@in_child
def test_types_outside_the_table_are_answered_with_what_is_permitted(library: Path) -> None:
    table = PluginHarness(library).create("Table", namespace="launcher")
    for given, names in {
        ("fp16", "fp16"): "(HALF, HALF)",
        ("bf16", "i64"): "(BF16, INT64)",
        ("fp8", "bool"): "(FP8, BOOL)",
        ("e8m0", "i4"): "(E8M0, INT4)",
    }.items():
        inputs = [Tensor(type_, (4,)) for type_ in given]
        for ask in (table.output_types, table.build):
            with pytest.raises(PluginFailedError) as caught:
                ask(inputs)
            (message,) = caught.value.messages
            assert message == (
                f"Table: getOutputDataTypes: the inputs have data types {names}; "
                "permitted are (HALF, FLOAT) or (FLOAT, FLOAT)"
            )


@in_child
def test_unknown_data_type_is_said(library: Path) -> None:
    with session(library) as at:
        plugin = of(at.make("Tuned"))
        types = (ctypes.c_int32 * 1)(99)
        assert plugin.ask("build", "GetOutputDataTypes", (ctypes.c_int32 * 1)(), *ints(1), types, *ints(1)) == -1
        assert at.harness.messages[-1].text.endswith(
            "getOutputDataTypes: the inputs have data types (of unknown type); permitted are (FLOAT)"
        )


@in_child
def test_only_linear_tensors_of_the_tables_rows_are_supported(library: Path) -> None:
    table = PluginHarness(library).create("Table", namespace="launcher")
    linear = [
        tuple((type_, "LINEAR") for type_ in row)
        for row in (("fp32", "fp32", "fp32", "i32"), ("fp16", "fp32", "fp16", "i32"))
    ]
    assert table.format_combinations([HALF, SINGLE]) == tuple(linear)


@pytest.mark.parametrize("position", range(2))
@in_child
def test_no_other_format_is_accepted_at_any_position(library: Path, position: int) -> None:
    with session(library) as at:
        plugin = of(at.make("Tuned"))
        descs = (DynamicTensorDesc * 2)(X.dynamic_desc(), X.dynamic_desc())
        for format_ in range(len(FORMATS) + 2):
            descs[position].desc.format = format_
            accepted = plugin.ask("build", "SupportsFormatCombination", *ints(position), descs, *ints(1, 1))
            assert accepted == (format_ == 0)
        descs[position].desc.format = 0
        for type_ in range(len(DATA_TYPES)):
            descs[position].desc.type = type_
            accepted = plugin.ask("build", "SupportsFormatCombination", *ints(position), descs, *ints(1, 1))
            assert accepted == (type_ == 0)


@in_child
def test_vector_formats_are_refused_with_what_is_supported(library: Path) -> None:
    with pytest.raises(FormatError, match="HWC8"):
        PluginHarness(library).create("Table", namespace="launcher").build([HALF.with_format("HWC8"), SINGLE])


@in_child
def test_wrong_number_of_tensors_is_refused_by_every_method(library: Path) -> None:
    with session(library) as at:
        plugin = of(at.make("Tuned"))
        dynamic = (DynamicTensorDesc * 3)(*[X.dynamic_desc()] * 3)
        descs = (TensorDesc * 3)(*[X.desc((4,))] * 3)
        types = (ctypes.c_int32 * 3)()
        calls: dict[str, tuple[Any, ...]] = {
            "ConfigurePlugin": ("build", dynamic, *ints(2), dynamic, *ints(1)),
            "GetOutputDataTypes": ("build", types, *ints(1), types, *ints(2)),
            "SupportsFormatCombination": ("build", *ints(0), dynamic, *ints(2, 1)),
            "GetWorkspaceSize": ("build", dynamic, *ints(2), dynamic, *ints(1)),
            "OnShapeChange": ("runtime", descs, *ints(2), descs, *ints(1)),
        }
        for method, (capability, *given) in calls.items():
            # A workspace that no device has is how getWorkspaceSize fails: TensorRT takes 0 for none.
            failure = {"GetWorkspaceSize": 2**63 - 1, "SupportsFormatCombination": 0}.get(method, -1)
            assert plugin.ask(capability, method, *given) == failure
            name = method[0].lower() + method[1:]
            assert at.harness.messages[-1].text == f"Tuned: {name}: is used with 2 inputs and 1 outputs; it has 1 and 1"
        with pytest.raises(PluginFailedError, match="getOutputShapes: is used with 2 inputs and 1 outputs"):
            at.harness.create("Tuned").output_shapes([X, X])


# Shapes.


@in_child
def test_shapes_are_checked_at_the_bounds_of_a_build_and_whenever_they_change(library: Path) -> None:
    with session(library) as at:
        table = at.harness.create("Table", namespace="launcher")
        dynamic = Tensor("fp16", (-1, 8), min=(0, 8), opt=(2, 8), max=(4, 8))
        table.build([dynamic, SINGLE])
        table.build([SINGLE, SINGLE])
        assert at.told("shapes ") == [
            "(0, 8) of 0, (8) of 8, others",
            "(4, 8) of 32, (8) of 8, others",
            *["(8) of 8, (8) of 8, the same"] * 2,
        ]
        huge = Tensor("fp16", (2**32, 2**31, 2))
        with pytest.raises(PluginFailedError) as caught:
            table.build([huge, SINGLE])
        assert caught.value.messages == (
            "Table: configurePlugin: shape (4294967296, 2147483648, 2) has more elements than 64 bits can count",
        )
        unknown = (TensorDesc * 1)(X.desc((-1,)))
        plugin = of(at.make("Tuned"))
        assert plugin.ask("runtime", "OnShapeChange", unknown, *ints(1), unknown, *ints(1)) == -1
        assert "shape (?) has an unknown extent; its volume is known only at run time" in at.harness.messages[-1].text


# Hooks that misbehave.


@pytest.mark.parametrize(
    ("misbehave", "method", "message"),
    [
        ("construct", "createPlugin", "an exception of unknown type"),
        ("clone", "Clone", "an exception of unknown type"),
        ("outputShapes", "getOutputShapes", "an exception of unknown type"),
        ("one shape", "getOutputShapes", "outputShapes() answers with 1 shapes; there are 2 outputs"),
        ("checkShapes", "configurePlugin", "an exception of unknown type"),
        ("index", "configurePlugin", "index 2 is out of range: there are 2"),
        ("attach", "attachToContext", "an exception of unknown type"),
        ("execute", "enqueue", "an exception of unknown type"),
    ],
)
@in_child
def test_what_a_hook_throws_fails_its_method_with_a_message(
    library: Path, misbehave: str, method: str, message: str
) -> None:
    import numpy as np

    with session(library) as at:
        with pytest.raises(PluginFailedError) as caught:
            at.harness.create("Table", {"misbehave": misbehave}, namespace="launcher").build(
                [HALF, SINGLE]
            ).run_time().run([np.zeros((4, 8), np.float16), np.zeros(8, np.float32)])
        assert caught.value.method.lower() == method.lower()
        named = method[0].lower() + method[1:]
        assert caught.value.messages[-1] == f"Table: {named}: {message}"


# Clones, identities.


@in_child
def test_clones_are_independent(library: Path) -> None:
    with session(library) as at:
        original = at.make("Tuned", tactic=2)
        at.enqueue(original)
        clone = of(original).clone()
        clone.do("runtime", "SetTactic", *ints(4))
        at.enqueue(original)
        assert at.driver.launches[-1].block == (32, 1, 1)
        of(original).close()
        descs = (TensorDesc * 1)(X.desc((64,)))
        clone.do("runtime", "OnShapeChange", descs, *ints(1), descs, *ints(1))
        addresses = (ctypes.c_void_p * 1)(at.memory)
        clone.do("runtime", "Enqueue", descs, descs, addresses, addresses, None, None)
        assert at.driver.launches[-1].block == (128, 1, 1)
        attached = clone.attach()
        before = len(at.told("configuration "))
        attached.do("runtime", "SetTactic", *ints(3))  # shapes of another context are not prepared here
        assert len(at.told("configuration ")) == before


@in_child
def test_timing_cache_id_tells_plugins_bundles_libraries_and_fields_apart(library: Path, bundle: Path) -> None:
    import json
    import re

    from helpers.tools import run, tool

    (build_id,) = re.findall(r"Build ID: ([0-9a-f]{64})\n", run(tool("readelf"), "--notes", library))
    digest = f"{json.loads((bundle / 'bundle.json').read_bytes())['digest']}, {build_id}"
    harness = PluginHarness(library)
    given: dict[str, dict[str, Any]] = {
        "Tuned": {},
        "Launch": {"kernel": "tiled"},
        "Weights": {"weights": [1.0, 0.1]},
    }
    ids = {name: harness.create(name, fields).build([X]).timing_cache_id for name, fields in given.items()}
    assert ids == {
        "Tuned": f"Tuned, 1, {digest}, ",
        "Launch": f'Launch, 1, {digest}, kernel = "tiled", configuration = 0, grid = 1, 1, 1, '
        'arguments = "", how = "select"',
        "Weights": f"Weights, 1, {digest}, weights = 1, 0.1, afterwards_fail = 0",
    }
    again = harness.create("Weights", {"weights": [1.0, 0.1]}).build([X])
    assert again.timing_cache_id == ids["Weights"]


@in_child
def test_capabilities_are_what_tensorrt_asks_for_and_nothing_else(library: Path) -> None:
    with session(library) as at:
        plugin = of(at.make("Tuned"))
        call = at.harness._harness.call  # noqa: SLF001
        found = [call("GetCapabilityInterface", plugin.address, *ints(number)) for number in range(4)]
        assert all(found[:3])
        assert found[3] is None


@in_child
def test_creators_are_sorted_by_identity(library: Path) -> None:
    assert [(creator.name, creator.namespace) for creator in PluginHarness(library).creators] == [
        ("Choose", ""),
        ("Constant", ""),
        ("EveryField", ""),
        ("Launch", ""),
        ("Misread", ""),
        ("Table", "launcher"),
        ("Tuned", ""),
        ("Weights", ""),
    ]


FAULTS = {
    "TWICE": (
        'plugin Faulty, version 1, namespace "" is registered twice in this library; '
        "give one of them another name or version"
    ),
    "NO_TYPES": "Faulty's tensorTypes() is empty; it needs at least one permitted combination",
    "UNEVEN_TYPES": "Faulty's tensorTypes() has rows of 2 and 1 inputs, 1 and 1 outputs; all must have the same",
    "NO_KERNEL": "the bundle has no kernel missing; it has none",
    "FIELD_TWICE": "field scale is declared twice",
    "WRONG_DEFAULT": "field scale has the default -1; it must be in [0, 1]",
}


@pytest.fixture(scope="session")
def faulty(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A library for each fault of a declaration."""
    directory = tmp_path_factory.mktemp("faulty")
    entries: list[Entry] = []
    return {
        fault: link(library, entries, directory / fault, f"-DDEFECT={fault}", source="faulty.cpp") for fault in FAULTS
    }


@pytest.mark.parametrize("fault", FAULTS)
@in_child
def test_faulty_declaration_is_told_and_no_creator_is_handed_out(faulty: dict[str, Path], fault: str) -> None:
    for _ in range(2):
        with pytest.raises(PluginContractError) as caught:
            PluginHarness(faulty[fault])
        assert str(caught.value).endswith(f"getCreators found no creator: plugin library: getCreators: {FAULTS[fault]}")
