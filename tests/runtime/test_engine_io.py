"""What is expected of an engine's tensors, as it is written down; `test_engine.py` compares it with engines."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hatch_tensoracle.runtime import EngineIO, TensorSpec


def test_tensorrts_own_names_become_plain_ones() -> None:
    half, host, linear = (SimpleNamespace(name=name) for name in ("HALF", "HOST", "LINEAR"))
    spec = TensorSpec(half, (1, -1), host, linear)  # type: ignore[arg-type]
    assert spec == TensorSpec("fp16", [1, -1], location="host", format="linear")  # type: ignore[arg-type]
    assert spec.format == "LINEAR"


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: TensorSpec("float", (1,)), ValueError, "dtype must be one of fp32, .*, not 'float'"),
        (lambda: TensorSpec("int32", (1,)), ValueError, "one of .* i32, .*, not 'int32'"),
        (lambda: TensorSpec("fp32", (-2,)), ValueError, "must have extents, or -1"),
        (lambda: TensorSpec("fp32", (True,)), TypeError, "must be an integer, not True"),
        (lambda: TensorSpec("fp32", (1,), location="gpu"), ValueError, "must be device or host, not 'gpu'"),
        (lambda: EngineIO(inputs={"x": (1,)}, outputs={}), TypeError, "inputs: 'x' must be a name"),  # type: ignore[dict-item]
        (
            lambda: EngineIO(inputs={"x": TensorSpec("fp32", ())}, outputs={"x": TensorSpec("fp32", ())}),
            ValueError,
            "'x' is declared as input and as output",
        ),
    ],
)
def test_a_wrong_tensor_declaration_is_refused(make: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
