"""Errors carry a cause, a place and a remedy, also from one process to another."""

from __future__ import annotations

import pickle

import pytest

from hatch_tensoracle import errors
from hatch_tensoracle.errors import BundleError, TensoracleError

CLASSES = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_pickled_with_all_it_carries(kind: type[TensoracleError]) -> None:
    place = {"where": "x.whl: pkg/libx.so"} if issubclass(kind, BundleError) else {}
    error = kind("is wrong", remedy="Mend it.", **place)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(copy) is kind
    assert (str(copy), copy.cause, copy.remedy) == (str(error), "is wrong", "Mend it.")


def test_a_defect_says_where_it_is_if_that_is_known() -> None:
    assert str(BundleError("is wrong", where="x.whl")) == "x.whl: is wrong"
    assert str(BundleError("is wrong")) == "is wrong"


def test_every_kind_of_defect_has_a_name_of_its_own() -> None:
    """They are part of the command line's output."""
    assert {kind.id for kind in BundleError.__subclasses__()} == {
        "manifest",
        "missing-cubin",
        "corrupt-cubin",
        "missing-ptx",
        "corrupt-ptx",
        "false-ptx",
        "false-sm",
        "entry-abi",
        "scratch",
        "resources",
        "unexpected-file",
        "bundle-mismatch",
        "library",
        "exports",
        "dependencies",
        "wheel",
        "wheel-tag",
        "missing-plugin",
    }
