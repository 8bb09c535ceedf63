"""Arrays on the host have the tensor's type."""

from __future__ import annotations

import numpy as np  # noqa: TID253 - what the harness copies
import pytest

from hatch_tensoracle.testing.arrays import from_bytes, host_array


def test_host_arrays_have_the_exact_type_and_are_made_contiguous() -> None:
    array = np.arange(6, dtype=np.float16).reshape(2, 3).T
    made = host_array(array, "fp16")
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, array)
    assert host_array(np.float32(1), "fp32").shape == ()
    with pytest.raises(TypeError, match="an array of float64 is given; the plugin was built for fp16"):
        host_array(np.zeros(2), "fp16")


def test_bytes_become_arrays_of_the_tensors_type() -> None:
    import ml_dtypes

    for type_, dtype in (("fp16", np.float16), ("bf16", ml_dtypes.bfloat16), ("fp8", ml_dtypes.float8_e4m3fn)):
        values = np.array([[1, -2]], dtype)
        again = from_bytes(values.tobytes(), type_, (1, 2))
        assert again.dtype == values.dtype
        np.testing.assert_array_equal(again, values)
    assert from_bytes(b"\x12", "fp4", (2,)).tolist() == [0x12]
