"""Arrays on the GPU are compared as those of the host are."""

from __future__ import annotations

from typing import Any

import numpy as np  # noqa: TID253 - the measure
import pytest

from hatch_tensoracle.runtime import compare_outputs


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


def arrays() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    reference = generator.standard_normal((1000, 2049), np.float32)
    return (reference + generator.standard_normal(reference.shape, np.float32) * 1e-3).astype(np.float16), reference


def test_cupy_arrays_give_what_numpy_arrays_give(cupy: Any) -> None:
    candidate, reference = arrays()
    expected = compare_outputs(candidate, reference, atol=1e-3, rtol=1e-3)
    assert compare_outputs(cupy.asarray(candidate), cupy.asarray(reference), atol=1e-3, rtol=1e-3) == expected
    assert compare_outputs(cupy.asarray(candidate), reference, atol=1e-3, rtol=1e-3) == expected


def test_cupy_arrays_may_be_strided(cupy: Any) -> None:
    candidate, reference = arrays()
    there = compare_outputs(cupy.asarray(candidate)[::3, 5::7], cupy.asarray(reference)[::3, 5::7])
    assert there == compare_outputs(candidate[::3, 5::7], reference[::3, 5::7])


def test_cupy_arrays_are_read_after_the_work_on_the_current_stream(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True):
        product = cupy.zeros((4000, 4000), "f4")
        for _ in range(50):
            product = product @ product
        assert compare_outputs(product + 1, np.ones((4000, 4000), "f4")).max_absolute_error == 0
