"""What `inspect --strict` counts: each advice once, with its id, where it is due and nowhere else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.bundles import change_manifest
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from hatch_tensoracle import Bundle, advice
from hatch_tensoracle.advice import Advice, advise_bundle, advise_file, advise_wheel
from hatch_tensoracle.cli import main


@pytest.fixture
def bundle(ptx_bundle: Path, tmp_path: Path) -> Path:
    """A bundle directory with PTX, to be changed."""
    return Path(shutil.copytree(ptx_bundle, tmp_path / "bundle"))


def of(directory: Path) -> list[Advice]:
    return [*advise_bundle(Bundle.parse((directory / "bundle.json").read_bytes(), ""), "place")]


def specialise(argument: int, **fields: object) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["entries"][0]["arguments"][argument].update(fields)

    return change


def generalise(content: dict[str, Any]) -> None:
    for argument in content["entries"][0]["arguments"]:
        argument["divisible_by"] = 1


def test_a_bundle_that_has_everything_needs_no_advice(bundle: Path) -> None:
    change_manifest(bundle, generalise)
    assert of(bundle) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param(specialise(1, divisible_by=16), "target", id="a divisor"),
        pytest.param(specialise(2, equal_to=1), "size", id="a value"),
        pytest.param(specialise(2, equal_to=0), "size", id="zero"),
    ],
)
def test_a_kernel_whose_last_variant_assumes_something_is_named(
    bundle: Path, change: Callable[[dict[str, Any]], None], name: str
) -> None:
    change_manifest(bundle, generalise)
    change_manifest(bundle, change)
    (found,) = of(bundle)
    assert (found.id, found.where) == ("no-unspecialised-variant", "place: kernel `copy#0`")
    assert f"assumes something of {name}: " in found.cause


def add_variant(content: dict[str, Any]) -> None:
    """Put a variant behind the first that assumes nothing."""
    last = json.loads(json.dumps(content["entries"][0]))
    content["entries"].append({**last, "variant": 1})
    generalise({"entries": content["entries"][1:]})


def test_the_last_variant_counts(bundle: Path) -> None:
    change_manifest(bundle, add_variant)
    assert of(bundle) == []


def test_spilled_registers_are_named_by_kernel_and_target(bundle: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        generalise(content)
        content["entries"][0]["cubins"][0]["local_bytes"] = 40

    change_manifest(bundle, change)
    (found,) = of(bundle)
    assert (found.id, found.where) == ("spills", "place: kernel `copy#0` for sm120")
    assert found.cause.startswith("40 bytes of local memory a thread")


def test_a_bundle_without_ptx_is_told_what_it_is_for(tiny_bundle: Path) -> None:
    found = {each.id: each for each in of(tiny_bundle)}
    assert found["no-ptx"].cause == "no PTX: nothing for GPUs that are newer than sm86, sm89, sm120"


def test_large_files_are_named(tmp_path: Path) -> None:
    with (tmp_path / "lib.so").open("wb") as file:
        file.truncate(100_000_000)
    assert [*advise_file(tmp_path / "lib.so")] == []
    with (tmp_path / "lib.so").open("wb") as file:
        file.truncate(100_000_001)
    (found,) = advise_file(tmp_path / "lib.so")
    assert (found.id, found.where) == ("size", str(tmp_path / "lib.so"))


def wheel_of(bundle: Path, directory: Path, tag: str) -> Path:
    library = link_library(bundle, directory / "libpkg.so").read_bytes()
    manifest = (bundle / "bundle.json").read_bytes()
    return write_wheel(directory, {"pkg/libpkg.so": library, "pkg/libpkg.bundle.json": manifest}, tag=tag)


@pytest.mark.parametrize(
    ("tag", "ids"),
    [
        ("py3-none-linux_x86_64", ["no-manylinux-tag"]),
        ("py3-none-manylinux_2_34_x86_64", []),
        ("py3-none-manylinux2014_x86_64", []),
    ],
)
def test_a_wheel_that_indexes_do_not_take_is_named(bundle: Path, tmp_path: Path, tag: str, ids: list[str]) -> None:
    change_manifest(bundle, generalise)
    wheel = wheel_of(bundle, tmp_path, tag)
    read = Bundle.parse((bundle / "bundle.json").read_bytes(), "")
    assert [each.id for each in advise_wheel(wheel, {"pkg/libpkg.so": read})] == ids


def test_a_large_library_in_a_wheel_is_named(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_manifest(bundle, generalise)
    wheel = wheel_of(bundle, tmp_path, "py3-none-manylinux_2_34_x86_64")
    size = (tmp_path / "libpkg.so").stat().st_size
    assert wheel.stat().st_size < size - 1
    monkeypatch.setattr(advice, "LARGE", size - 1)
    read = Bundle.parse((bundle / "bundle.json").read_bytes(), "")
    (found,) = advise_wheel(wheel, {"pkg/libpkg.so": read})
    assert (found.id, found.where) == ("size", f"{wheel}: pkg/libpkg.so")


def test_only_strict_inspection_fails_for_it(
    tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = wheel_of(tiny_bundle, tmp_path, "py3-none-linux_x86_64")
    assert main(["inspect", str(wheel)]) == 0
    assert capsys.readouterr().out.endswith(f"{wheel}: no defects\n")
    assert main(["inspect", "--format", "json", str(wheel)]) == 0
    report = json.loads(capsys.readouterr().out)
    (artifact,) = report["artifacts"]
    assert (report["strict"], artifact["defects"]) == (False, [])
    ids = [each["id"] for each in artifact["advice"]]
    assert ids == ["no-manylinux-tag", "no-unspecialised-variant", "no-ptx"]
    assert main(["inspect", "--strict", str(wheel)]) == 1
    text = capsys.readouterr().out
    assert [line.partition(": ")[0] for line in text.splitlines() if line.startswith("no-")] == ids
    assert text.endswith(f"{wheel}: 3 defects\n")
