"""The manifest: one form, one digest, and nothing in it that is not checked."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.bundles import sealed

from hatch_tensoracle import Bundle
from hatch_tensoracle._decode import DecodeError
from hatch_tensoracle.bundle import CUBIN_ALIGNMENT, ELEMENT_SIZES, SCALAR_SIZES, Argument, Cubin, Ptx
from hatch_tensoracle.errors import ManifestError


@pytest.fixture
def content(tiny_bundle: Path) -> dict[str, Any]:
    """Content of a good manifest, to be changed."""
    parsed: dict[str, Any] = json.loads((tiny_bundle / "bundle.json").read_bytes())
    return parsed


def test_a_manifest_is_read_and_written_as_the_same_bytes(tiny_bundle: Path) -> None:
    text = (tiny_bundle / "bundle.json").read_bytes()
    assert Bundle.parse(text, "bundle.json").to_json() == text


def test_another_layout_of_the_same_content_is_the_same_manifest(content: dict[str, Any], tiny_bundle: Path) -> None:
    shuffled = json.dumps(dict(reversed(content.items())), indent=7).encode("utf-16")
    assert Bundle.parse(shuffled, "x") == Bundle.parse((tiny_bundle / "bundle.json").read_bytes(), "x")


def test_the_digest_is_over_everything_else(content: dict[str, Any], tiny_bundle: Path) -> None:
    """Computed here once more: sorted keys, no spaces, UTF-8."""
    assert json.loads(sealed(content))["digest"] == content["digest"]
    bundle = Bundle.parse((tiny_bundle / "bundle.json").read_bytes(), "x")
    assert dataclasses.replace(bundle, digest="").sealed() == bundle
    assert dataclasses.replace(bundle, minimum_driver="1.2.3").sealed().digest != bundle.digest


def test_text_beyond_ascii_is_kept(content: dict[str, Any]) -> None:
    content["tools"]["größe"] = "数"
    bundle = Bundle.parse(sealed(content), "x")
    assert bundle.tools["größe"] == "数"
    assert Bundle.parse(bundle.to_json(), "x") == bundle


def test_tuning_of_a_kernel_that_there_is_not_is_refused(content: dict[str, Any]) -> None:
    what = {"plugin": "Copy", "version": "1", "namespace": "", "kernel": "copy", "types": ["fp32"], "fields": {}}
    ranges = [{"inputs": [[[1, 8]]], "configuration": {"BLOCK": 64}, "us": 1.5, "runner_up_us": None}]
    content["tuning"] = [{**what, "sm": 86, "gpu": "A10", "driver": "580.95.05", "ranges": ranges}]
    (tuning,) = Bundle.parse(sealed(content), "x").tuning
    assert tuning.ranges[0].configuration == {"BLOCK": 64}
    assert Bundle.parse(sealed(content), "x").sealed().digest == json.loads(sealed(content))["digest"]
    for change, problem in (
        ({"kernel": "copied"}, "tuning[0].kernel: there is no kernel `copied`; there are copy"),
        (
            {"ranges": [{**ranges[0], "configuration": {"BLOCK": 32}}]},
            "tuning[0].ranges[0].configuration: BLOCK=32 is no",
        ),
    ):
        changed = {**content, "tuning": [{**content["tuning"][0], **change}]}
        with pytest.raises(ManifestError, match=re.escape(problem)):
            Bundle.parse(sealed(changed), "x")


def test_more_tuned_ranges_than_can_be_looked_up_are_refused(content: dict[str, Any]) -> None:
    """A thousand and one ranges, each among a thousand configurations: hostile manifests could have far more."""
    own = {"inputs": [[[1, 8]]], "configuration": {"BLOCK": 64}, "us": 1.5, "runner_up_us": None}
    what = {"plugin": "Copy", "version": "1", "kernel": "copy", "types": ["fp32"]}
    content["tuning"] = [{**what, "sm": 86, "gpu": "A10", "driver": "580.95.05", "ranges": [own] * 1001}]
    content["entries"] = [{**entry(content), "configuration": i} for i in range(1000)]
    with pytest.raises(ManifestError, match="has 1001 tuned ranges, for up to 1000 configurations of a kernel"):
        Bundle.parse(sealed(content), "x")


@pytest.mark.parametrize("field", ["registers", "local_bytes", "dynamic_shared", "threads"])
@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, 10**400])
def test_numbers_beyond_those_of_the_launcher_are_refused(content: dict[str, Any], field: str, value: int) -> None:
    entry(content)["cubins"][0][field] = value
    with pytest.raises(ManifestError, match=rf"entries\[0\]\.cubins\[0\]\.{field}: must be a number of 32 bits"):
        Bundle.parse(sealed(content), "x")


@pytest.mark.parametrize("name", ["", "::error::x", "a b", "naïve", "1st"])
def test_a_kernel_is_called_by_an_identifier(content: dict[str, Any], name: str) -> None:
    entry(content)["kernel"] = name
    with pytest.raises(ManifestError, match=r"entries\[0\]\.kernel: must be a C identifier"):
        Bundle.parse(sealed(content), "x")


def entry(content: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = content["entries"][0]
    return first


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda c: c.update(schema=2), "has schema 2; this release reads 1", id="newer schema"),
        pytest.param(lambda c: c.update(schema="1"), "has schema '1'", id="schema as text"),
        pytest.param(lambda c: c.pop("schema"), "has schema None", id="no schema"),
        pytest.param(lambda c: c.update(target=[]), "target: is an unknown key; did you mean", id="misspelt key"),
        pytest.param(lambda c: entry(c).update(colour=1), "entries[0].colour: is an unknown key", id="unknown key"),
        pytest.param(lambda c: entry(c).pop("symbol"), "entries[0].symbol: is missing", id="missing key"),
        pytest.param(lambda c: c.update(targets="sm86"), "targets: must be an array", id="text for an array"),
        pytest.param(lambda c: entry(c).update(variant="0"), "entries[0].variant: must be", id="text for a number"),
        pytest.param(
            lambda c: entry(c)["cubins"][1].update(size=True),
            "entries[0].cubins[1].size: must be an integer",
            id="bool",
        ),
        pytest.param(
            lambda c: entry(c)["cubins"][0].update(size=-1),
            "entries[0].cubins[0].size: must be from 0 to 67108864 bytes, is -1",
            id="negative size",
        ),
        pytest.param(
            lambda c: entry(c)["cubins"][0].update(target="sm999"),
            "entries[0].cubins[0].target: unknown target `sm999`",
            id="unknown target",
        ),
        pytest.param(
            lambda c: entry(c)["arguments"][0].update(type="*int"),
            "entries[0].arguments[0].type: unknown type `*int`",
            id="unknown type",
        ),
        pytest.param(
            lambda c: entry(c)["arguments"][2].update(type="fp8e5"),
            "entries[0].arguments[2].type: unknown type `fp8e5`",
            id="type that is no parameter",
        ),
        pytest.param(lambda c: entry(c)["options"].update(x=[1]), "entries[0].options.x: must be", id="list as option"),
        pytest.param(lambda c: entry(c)["options"].update(x=float("nan")), "JSON compliant", id="NaN"),
        pytest.param(lambda c: entry(c)["options"].update(x=float("inf")), "JSON compliant", id="infinity"),
    ],
)
def test_manifest_with_one_defect_is_refused(content: dict[str, Any], change: Any, problem: str) -> None:
    """The digest fits the changed content: the defect itself is found."""
    change(content)
    with pytest.raises(ManifestError, match=re.escape(problem)) as caught:
        Bundle.parse(sealed(content), "some/bundle.json")
    assert caught.value.where == "some/bundle.json"


@pytest.mark.parametrize(
    "file",
    [
        "cubins/../../etc/passwd",
        "/etc/passwd",
        "../x.cubin",
        "x.cubin",
        "cubins/sub/x.cubin",
        "cubins/.x.cubin",
        "cubins/x.so",
        "cubins\\x.cubin",
        "cubins/x\n.cubin",
        "cubins/é.cubin",
        'cubins/".cubin',
        "",
    ],
)
def test_a_cubins_file_is_a_plain_name_below_cubins(content: dict[str, Any], file: str) -> None:
    entry(content)["cubins"][0]["file"] = file
    with pytest.raises(ManifestError, match=r"entries\[0\]\.cubins\[0\]\.file: must be a plain file name"):
        Bundle.parse(sealed(content), "bundle.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(b"schema = 1", "is not JSON", id="TOML"),
        pytest.param(b'{"schema": 1', "is not JSON", id="cut off"),
        pytest.param(b"\x7fELF\x02\x01\xff\xfe\x80", "is not JSON", id="binary"),
        pytest.param(b"[" * 100_000, "is not JSON", id="nested too deeply"),
        pytest.param(b'{"schema": ' + b"1" * 5000 + b"}", "is not JSON", id="a number of 5000 digits"),
        pytest.param(b"[1]", "has schema None", id="a list"),
        pytest.param(b"null", "has schema None", id="null"),
        pytest.param(b'{"schema": 1}', "is missing", id="nothing but the schema"),
    ],
)
def test_what_is_no_manifest_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ManifestError, match=re.escape(problem)):
        Bundle.parse(text, "bundle.json")


def test_half_a_surrogate_pair_is_refused(content: dict[str, Any]) -> None:
    content["tools"]["triton"] = "\ud800"
    with pytest.raises(ManifestError, match="surrogates not allowed"):
        Bundle.parse(json.dumps(content).encode(), "bundle.json")


def test_another_schema_is_told_from_damage_by_its_remedy(content: dict[str, Any]) -> None:
    content["schema"] = 7
    with pytest.raises(ManifestError) as caught:
        Bundle.parse(sealed(content), "bundle.json")
    assert "release of hatch-tensoracle that wrote it" in caught.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda c: c.update(digest="0" * 64), id="the digest"),
        pytest.param(lambda c: c.pop("digest"), id="no digest"),
        pytest.param(lambda c: c.update(minimum_driver="1.0"), id="the driver"),
        pytest.param(lambda c: entry(c)["cubins"][0].update(dynamic_shared=16), id="a number deep inside"),
        pytest.param(lambda c: entry(c)["cubins"].reverse(), id="an order"),
    ],
)
def test_a_change_after_the_digest_was_taken_is_noticed(content: dict[str, Any], change: Any) -> None:
    change(content)
    with pytest.raises(ManifestError, match=r"says digest .*, its content has"):
        Bundle.parse(json.dumps(content).encode(), "bundle.json")


def test_cubins_are_embedded_in_order_each_at_an_aligned_offset(content: dict[str, Any]) -> None:
    for cubin, size in zip(entry(content)["cubins"], (1, 16, 17), strict=True):
        cubin["size"] = size
    bundle = Bundle.parse(sealed(content), "x")
    assert [offset for _, _, offset in bundle.embedded()] == [0, CUBIN_ALIGNMENT, 2 * CUBIN_ALIGNMENT]
    assert [cubin.target for _, cubin, _ in bundle.embedded()] == ["sm86", "sm89", "sm120"]


PTX: dict[str, Any] = {
    "target": "sm89",
    "file": "ptx/copy.0.0.sm89.ptx",
    "sha256": "",
    "size": 16,
    "version": "8.0",
    "dynamic_shared": 0,
    "scratch": 0,
    "threads": 128,
}


@pytest.fixture
def with_ptx(content: dict[str, Any]) -> dict[str, Any]:
    """The manifest with PTX, which is nowhere."""
    content["ptx_target"] = "sm89"
    entry(content)["ptx"] = dict(PTX)
    return content


def test_ptx_follows_the_cubins_of_its_entry_and_has_a_nul_behind_it(with_ptx: dict[str, Any]) -> None:
    for cubin in entry(with_ptx)["cubins"]:
        cubin["size"] = 16
    second = {**entry(with_ptx), "kernel": "second"}
    with_ptx["entries"].append(second)
    bundle = Bundle.parse(sealed(with_ptx), "x")
    assert [code.label for _, code in bundle.codes()] == ["sm86", "sm89", "sm120", "sm89 PTX"] * 2
    assert [offset for _, _, offset in bundle.embedded()] == [0, 16, 32, 48, 80, 96, 112, 128]
    assert Bundle.parse(bundle.to_json(), "x") == bundle


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda c: entry(c)["ptx"].update(target="sm90"), "ptx.target: unusable PTX target", id="newer"),
        pytest.param(lambda c: entry(c)["ptx"].update(file="ptx/../x.ptx"), "ptx.file: must be a plain", id="file"),
        pytest.param(
            lambda c: entry(c)["ptx"].update(size=-1), "ptx.size: must be from 0 to 67108864 bytes, is -1", id="size"
        ),
        pytest.param(lambda c: entry(c)["ptx"].pop("version"), "ptx.version: is missing", id="version"),
        pytest.param(lambda c: entry(c).update(ptx=[]), "ptx: must be a table", id="array"),
        pytest.param(lambda c: entry(c).update(ptx=None), "promises PTX for sm89, but kernel `copy#0` has", id="none"),
        pytest.param(lambda c: c.update(ptx_target=None), "promises PTX for None, but kernel `copy#0` has", id="more"),
        pytest.param(lambda c: c.update(ptx_target="sm80"), "promises PTX for sm80, but kernel", id="another"),
    ],
)
def test_a_manifest_with_wrong_ptx_is_refused(with_ptx: dict[str, Any], change: Any, problem: str) -> None:
    change(with_ptx)
    with pytest.raises(ManifestError, match=re.escape(problem)):
        Bundle.parse(sealed(with_ptx), "bundle.json")


def test_a_manifest_from_before_there_was_ptx_is_read(content: dict[str, Any]) -> None:
    del content["ptx_target"]
    del entry(content)["ptx"]
    bundle = Bundle.parse(sealed(content), "x")
    assert (bundle.ptx_target, bundle.entries[0].ptx) == (None, None)


def test_an_argument_for_one_value_is_no_parameter(content: dict[str, Any]) -> None:
    entry(content)["arguments"][2]["equal_to"] = 64
    (parsed,) = Bundle.parse(sealed(content), "x").entries
    assert [argument.name for argument in parsed.arguments] == ["source", "target", "size"]
    assert [argument.name for argument in parsed.parameters] == ["source", "target"]


@pytest.mark.parametrize(("type_", "size"), [*SCALAR_SIZES.items(), *((f"*{element}", 8) for element in ELEMENT_SIZES)])
def test_argument_knows_its_size(type_: str, size: int) -> None:
    assert Argument(name="x", type=type_).size == size


def test_records_made_in_python_are_checked_too() -> None:
    with pytest.raises(DecodeError, match="type: unknown type `int`"):
        Argument(name="x", type="int")
    good = {
        "sha256": "",
        "architecture_specific": False,
        **dict.fromkeys(
            ("size", "registers", "local_bytes", "static_shared", "dynamic_shared", "scratch", "threads"), 0
        ),
    }
    with pytest.raises(DecodeError, match="file: must be a plain file name"):
        Cubin(target="sm86", file="../x", **good)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="file: must be a plain file name"):
        Ptx(**{**PTX, "file": "cubins/x.cubin"})


@pytest.mark.parametrize("targets", [["sm86"], ["sm86", "sm89", "sm90"], []], ids=["fewer", "more", "none"])
def test_a_manifest_promises_the_targets_that_every_kernel_has(content: dict[str, Any], targets: list[str]) -> None:
    content["targets"] = targets
    with pytest.raises(ManifestError, match="but kernel `"):
        Bundle.parse(sealed(content), "bundle.json")
