"""compare_outputs takes tensors of torch, of every type and layout, together with arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np  # noqa: TID253 - tensors are compared with its arrays
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hatch_tensoracle.runtime import compare_outputs  # noqa: E402 - only where torch is


@pytest.mark.parametrize(
    "name",
    [
        *("float64", "float32", "float16", "bfloat16"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ],
)
def test_every_floating_point_type_is_exact(name: str) -> None:
    candidate = torch.tensor([[1.0, 4.0], [2.0, 0.5]]).to(getattr(torch, name))
    found = compare_outputs(candidate, np.array([[1.0, 3.0], [2.0, 0.5]]), atol=0.5, rtol=0)
    assert found.types == (name, "float64")
    assert (found.max_absolute_error, found.outside_tolerance_count) == (1.0, 1)
    assert found.worst()[0].index == (0, 1)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_nans_are_counted(name: str) -> None:
    candidate = torch.tensor([1.0, torch.nan]).to(getattr(torch, name))
    found = compare_outputs(candidate, candidate)
    assert (found.candidate_nonfinite_count, found.reference_nonfinite_count) == (1, 1)
    assert found.max_absolute_error is None


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_are_exact(name: str) -> None:
    candidate = torch.tensor([1, 2, 3]).to(getattr(torch, name))
    assert compare_outputs(candidate, np.array([1, 2, 4])).mismatch_count == 1


def test_booleans_are_compared_with_booleans_alone() -> None:
    candidate = torch.tensor([True, False])
    assert compare_outputs(candidate, np.array([True, True])).mismatch_count == 1
    with pytest.raises(ValueError, match="bool, boolean; the reference of uint8, integer"):
        compare_outputs(candidate, candidate.to(torch.uint8))


def layouts(tensor: Any) -> dict[str, Any]:
    """The same numbers in other places."""
    return {
        "a parameter": torch.nn.Parameter(tensor.clone()),
        "transposed": tensor.T.contiguous().T,
        "strided": tensor.repeat_interleave(2, dim=1)[:, ::2],
        "negated": torch.complex(torch.zeros_like(tensor), -tensor).conj().imag,
    }


@pytest.mark.parametrize("layout", ["a parameter", "transposed", "strided", "negated"])
def test_layout_does_not_matter(layout: str) -> None:
    reference = torch.arange(3 * 5000.0).reshape(3, 5000)
    candidate = reference.clone()
    candidate[2, 4999] += 1
    found = compare_outputs(layouts(candidate)[layout], reference)
    assert found.max_absolute_error == 1.0
    assert found.worst()[0].index == (2, 4999)


def test_complex_tensors_are_of_no_kind() -> None:
    tensor = torch.zeros(2, dtype=torch.complex64)
    with pytest.raises(ValueError, match="the candidate is of complex64"):
        compare_outputs(tensor, tensor)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_tensors_that_are_not_dense_are_refused() -> None:
    quantized = torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.quint8)
    for tensor in (torch.eye(3).to_sparse(), quantized):
        with pytest.raises(TypeError, match="make it a dense one"):
            compare_outputs(tensor, np.zeros(tuple(tensor.shape)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
def test_tensors_on_a_gpu_are_brought_over() -> None:
    reference = torch.randn(3, 1 << 20)
    candidate = reference.to("cuda", torch.bfloat16)
    expected = compare_outputs(candidate.cpu(), reference)
    assert compare_outputs(candidate, reference) == expected
