"""Two artifacts are told apart by what their kernels are, not by where they lie."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.bundles import change_cubins, change_manifest, replace_cubin
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from hatch_tensoracle.cli import main


@pytest.fixture
def bundle(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A bundle directory to be changed."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))


class Diff:
    """`hatch-tensoracle diff` of two paths."""

    def __init__(self, capsys: pytest.CaptureFixture[str], before: Path, after: Path) -> None:
        self.status = main(["diff", str(before), str(after)])
        printed = capsys.readouterr()
        self.lines, self.error = printed.out.splitlines(), printed.err
        assert main(["diff", "--format", "json", str(before), str(after)]) == self.status
        text = capsys.readouterr().out
        self.report: dict[str, Any] = json.loads(text) if text else {}
        self.changes = {change["what"]: change for change in self.report.get("changes", ())}


def test_an_artifact_is_equal_to_its_copy(tiny_bundle: Path, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diff = Diff(capsys, tiny_bundle, bundle)
    assert (diff.status, diff.lines, diff.changes) == (0, ["no differences"], {})
    assert (diff.report["version"], diff.report["before"]) == (1, str(tiny_bundle))


def test_the_bundle_the_library_and_the_wheel_of_it_are_equal(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = link_library(tiny_bundle, tmp_path / "libpkg.so")
    manifest = (tiny_bundle / "bundle.json").read_bytes()
    wheel = write_wheel(tmp_path, {"pkg/libpkg.so": library.read_bytes(), "pkg/libpkg.bundle.json": manifest})
    assert Diff(capsys, tiny_bundle, library).status == Diff(capsys, library, wheel).status == 0


def test_other_code_is_told_by_what_it_needs(
    tiny_bundle: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cubin,) = (bundle / "cubins").glob("*.sm86.cubin")
    data = cubin.read_bytes()
    replace_cubin(bundle, "sm86", data + bytes(8))
    change_cubins(bundle, "sm86", dynamic_shared=512)
    diff = Diff(capsys, tiny_bundle, bundle)
    assert diff.status == 1
    shown = f"other bytes, size {len(data)} -> {len(data) + 8}, dynamic shared memory 0 -> 512"
    assert diff.lines == [f"~ kernel copy#0 for sm86: {shown}", "0 added, 0 removed, 1 changed"]
    change = diff.changes["kernel copy#0 for sm86"]
    assert change["kind"] == "changed"
    assert change["before"] == {
        "sha256": change["before"]["sha256"],
        "size": len(data),
        "dynamic shared memory": 0,
    }
    assert change["before"]["sha256"] != change["after"]["sha256"]


def drop_target(content: dict[str, Any]) -> None:
    """Leave out the cubins for sm89."""
    content["targets"].remove("sm89")
    for entry in content["entries"]:
        entry["cubins"] = [cubin for cubin in entry["cubins"] if cubin["target"] != "sm89"]


def test_what_is_on_one_side_only_is_added_or_removed(
    tiny_bundle: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cubin,) = (bundle / "cubins").glob("*.sm89.cubin")
    cubin.unlink()
    change_manifest(bundle, drop_target)
    removed, added = Diff(capsys, tiny_bundle, bundle), Diff(capsys, bundle, tiny_bundle)
    assert removed.status == added.status == 1
    assert removed.lines[0] == "~ bundle: targets sm86 sm89 sm120 -> sm86 sm120"
    assert removed.lines[1].startswith("- kernel copy#0 for sm89: size ")
    assert added.lines[1].startswith("+ kernel copy#0 for sm89: size ")
    assert removed.lines[2] == "0 added, 1 removed, 1 changed"
    assert added.changes["kernel copy#0 for sm89"]["kind"] == "added"


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        pytest.param(
            lambda content: content["tools"].update(triton="9.9"), "~ bundle: triton version", id="version of a tool"
        ),
        pytest.param(lambda content: content.update(minimum_driver="999.0"), "~ bundle: minimum driver", id="driver"),
        pytest.param(
            lambda content: content["entries"][0]["arguments"][0].update(divisible_by=16),
            "~ kernel copy#0 for sm86: arguments source:*fp32 ",
            id="an assumption",
        ),
        pytest.param(
            lambda content: content["entries"][0]["constants"][0].update(value=128),
            "~ kernel copy#0 for sm86: constants BLOCK=64 -> BLOCK=128",
            id="a constant",
        ),
    ],
)
def test_what_the_manifest_says_is_compared(
    tiny_bundle: Path,
    bundle: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    shown: str,
) -> None:
    change_manifest(bundle, change)
    diff = Diff(capsys, tiny_bundle, bundle)
    assert diff.status == 1
    assert diff.lines[0].startswith(shown)


def test_other_launchers_around_the_same_kernels_are_told(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = link_library(tiny_bundle, tmp_path / "first.so")
    second = link_library(tiny_bundle, tmp_path / "second.so", options=["-Wl,-s"])
    sizes = [path.stat().st_size for path in (first, second)]
    diff = Diff(capsys, first, second)
    assert diff.lines[0] == f"~ library: size {sizes[0]} -> {sizes[1]}, other bytes"
    assert diff.lines[1:] == ["0 added, 0 removed, 1 changed"]


def test_libraries_of_a_wheel_are_compared_by_their_paths(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = link_library(tiny_bundle, tmp_path / "libpkg.so").read_bytes()
    manifest = (tiny_bundle / "bundle.json").read_bytes()
    first = {"pkg/liba.so": library, "pkg/liba.bundle.json": manifest}
    second = {"pkg/libb.so": library, "pkg/libb.bundle.json": manifest}
    one, two = write_wheel(tmp_path / "one", first), write_wheel(tmp_path / "two", {**first, **second})
    diff = Diff(capsys, one, two)
    assert diff.lines[0].startswith(f"~ wheel: size {one.stat().st_size} -> {two.stat().st_size}")
    assert diff.lines[1] == f"+ library pkg/libb.so: size {len(library)}"
    assert [line.partition(": ")[0] for line in diff.lines[3:-1]] == [
        f"+ kernel copy#0 for {target} in pkg/libb.so" for target in ("sm86", "sm89", "sm120")
    ]


def test_sides_that_cannot_be_compared_are_wrong_usage(
    tiny_bundle: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_cubins(bundle, "sm86", scratch=1)
    diff = Diff(capsys, tiny_bundle, bundle)
    assert diff.status == 2
    assert "scratch: " in diff.error
    missing = Diff(capsys, tiny_bundle, bundle / "missing")
    assert (missing.status, missing.error) == (2, f"hatch-tensoracle: {bundle / 'missing'} does not exist\n")
