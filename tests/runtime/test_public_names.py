"""What the package offers is what it says, loaded with its first use."""

from __future__ import annotations

import pytest

from hatch_tensoracle import runtime


def test_every_public_name_is_there() -> None:
    assert set(runtime.__all__) == set(runtime._HOMES)  # noqa: SLF001 - the table behind them
    for name in runtime.__all__:
        assert getattr(runtime, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'hatch_tensoracle\.runtime' has no attribute 'open_engin'"):
        _ = runtime.open_engin
