"""Cubins and PTX that a wheel has as files, beside the library that embeds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.bundles import collect
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from hatch_tensoracle.errors import (
    BundleError,
    CorruptCubinError,
    MissingCubinError,
    MissingPtxError,
    UnexpectedFileError,
)
from hatch_tensoracle.inspection import check_wheel, shipped_name

LIBRARY = "pkg/libx.so"


@pytest.fixture
def files(ptx_bundle: Path, tmp_path: Path) -> dict[str, bytes]:
    """Those of a wheel that ships its code."""
    shipped = [file for kind in ("cubins", "ptx") for file in sorted((ptx_bundle / kind).iterdir())]
    return {
        LIBRARY: link_library(ptx_bundle, tmp_path / "libx.so").read_bytes(),
        "pkg/libx.bundle.json": (ptx_bundle / "bundle.json").read_bytes(),
        **{shipped_name(LIBRARY, str(file.relative_to(ptx_bundle))): file.read_bytes() for file in shipped},
    }


def defects(directory: Path, files: dict[str, bytes]) -> list[tuple[type[BundleError], str]]:
    wheel = write_wheel(directory, files)
    return [(type(defect), defect.where.removeprefix(f"{wheel}: ")) for defect in collect(check_wheel(wheel))[0]]


def test_all_the_code_or_none_is_good(files: dict[str, bytes], tmp_path: Path) -> None:
    assert len(files) == 4
    assert defects(tmp_path / "all", files) == []
    assert defects(tmp_path / "none", dict(list(files.items())[:2])) == []


CUBIN, PTX = "pkg/libx.bundle/cubins/copy.0.0.sm120.cubin", "pkg/libx.bundle/ptx/copy.0.0.sm89.ptx"


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        pytest.param(lambda files: files.pop(CUBIN), (MissingCubinError, CUBIN), id="missing-cubin"),
        pytest.param(lambda files: files.pop(PTX), (MissingPtxError, PTX), id="missing-ptx"),
        pytest.param(
            lambda files: files.update({CUBIN: files[CUBIN][:-1] + b"x"}),
            (CorruptCubinError, f"{CUBIN}: kernel `copy#0` for sm120"),
            id="changed",
        ),
        pytest.param(
            lambda files: files.update({"pkg/libx.bundle/cubins/old.cubin": b"x"}),
            (UnexpectedFileError, "pkg/libx.bundle/cubins/old.cubin"),
            id="of-an-earlier-build",
        ),
    ],
)
def test_code_that_is_not_what_the_manifest_says_is_found(
    files: dict[str, bytes], tmp_path: Path, damage: Callable[[dict[str, bytes]], object], found: tuple[object, str]
) -> None:
    damage(files)
    assert defects(tmp_path / "wheel", files) == [found]
