"""compare_outputs says how far an output is from its reference, whatever the numbers, types, layouts and sizes are."""

from __future__ import annotations

import dataclasses
import decimal
import math
import pickle
import sys
import tracemalloc
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np  # noqa: TID253 - its arrays are compared
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from hatch_tensoracle.runtime import ComparedElement, OutputComparison, compare_outputs
from hatch_tensoracle.runtime.array_pair import BLOCK

MEASUREMENTS = (
    "max_absolute_error",
    "relative_l2_error",
    "cosine_similarity",
    "outside_tolerance_count",
    "outside_tolerance_fraction",
)
COUNTS = ("candidate_nonfinite_count", "reference_nonfinite_count")
MISMATCHES = ("mismatch_count", "mismatch_fraction")

EXACT = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Its numbers neither overflow nor underflow here, and sums of squares of float64 lose nothing that could be seen."""


def values(comparison: OutputComparison, names: tuple[str, ...]) -> list[Any]:
    return [getattr(comparison, name) for name in names]


@st.composite
def pairs(draw: st.DrawFn, *, finite: bool = True) -> tuple[Any, Any]:
    """A candidate and a reference, often equal in places."""
    shape = draw(array_shapes(max_dims=3, max_side=6))

    def side() -> Any:
        type_ = np.dtype(draw(st.sampled_from([np.float16, np.float32, np.float64])))
        numbers = st.floats(width=type_.itemsize * 8, allow_nan=not finite, allow_infinity=not finite)  # type: ignore[arg-type]
        return draw(arrays(type_, shape, elements=numbers))

    candidate, reference = side(), side()
    if candidate.dtype == reference.dtype:
        candidate = np.where(draw(arrays(np.bool_, shape)), candidate, reference)
    return candidate, reference


def expected(candidate: Any, reference: Any) -> tuple[float, float | None, float | None]:
    """Largest error, relative L2 error and cosine, in 80 digits, and only then as floats."""
    with decimal.localcontext(EXACT):
        c, r = ([Decimal(float(value)) for value in side.ravel()] for side in (candidate, reference))
        differences = [abs(left - right) for left, right in zip(c, r, strict=True)]
        norms = [sum((value * value for value in side), Decimal(0)).sqrt() for side in (differences, r, c)]
        product = sum((left * right for left, right in zip(c, r, strict=True)), Decimal(0))
        relative = float(norms[0] / norms[1]) if norms[1] else None
        cosine = float(product / (norms[1] * norms[2])) if norms[1] and norms[2] else None
        return float(max(differences)), relative, cosine


@settings(database=None, deadline=None, max_examples=200)
@given(pairs())
def test_floating_point_measurements_are_those_of_exact_arithmetic(pair: tuple[Any, Any]) -> None:
    """Over the whole range of float64, where squares overflow and underflow."""
    found = compare_outputs(*pair)
    largest, relative, cosine = expected(*pair)
    assert found.max_absolute_error == pytest.approx(largest, rel=1e-15, abs=0)
    assert found.relative_l2_error == (None if relative is None else pytest.approx(relative, rel=1e-13, abs=5e-324))
    assert found.cosine_similarity == (None if cosine is None else pytest.approx(cosine, rel=0, abs=1e-14))
    assert values(found, COUNTS) == [0, 0]
    assert values(found, (*MEASUREMENTS[3:], *MISMATCHES)) == [None] * 4


@settings(database=None, deadline=None)
@given(pairs(), st.floats(0, 1e3), st.floats(0, 1))
def test_elements_outside_the_tolerance_are_those_of_the_formula_in_float64(
    pair: tuple[Any, Any], atol: float, rtol: float
) -> None:
    candidate, reference = (side.astype(np.float64) for side in pair)
    with np.errstate(over="ignore"):
        outside = int((~(np.abs(candidate - reference) <= atol + rtol * np.abs(reference))).sum())
    found = compare_outputs(*pair, atol=atol, rtol=rtol)
    assert found.outside_tolerance_count == outside
    assert found.outside_tolerance_fraction == outside / candidate.size


@settings(database=None, deadline=None)
@given(pairs(finite=False))
def test_numbers_that_are_not_finite_are_counted_and_leave_nothing_else(pair: tuple[Any, Any]) -> None:
    found = compare_outputs(*pair, atol=1e300, rtol=0)
    counts = [int((~np.isfinite(side)).sum()) for side in pair]
    assert values(found, COUNTS) == counts
    if any(counts):
        assert values(found, MEASUREMENTS) == [None] * 5
    else:
        assert found.max_absolute_error is not None


def test_infinities_and_nans_in_the_same_place_are_no_agreement() -> None:
    wrong = np.array([1.0, np.nan, np.inf])
    found = compare_outputs(wrong, wrong.copy(), atol=1, rtol=1)
    assert values(found, COUNTS) == [2, 2]
    assert values(found, MEASUREMENTS) == [None] * 5
    assert [(element.index, element.absolute_error) for element in found.worst()] == [
        ((1,), math.inf),
        ((2,), math.inf),
    ]


def test_equal_arrays_have_no_error_and_the_same_direction() -> None:
    array = np.random.default_rng(0).standard_normal((300, 1000), np.float32)
    found = compare_outputs(array, array.copy(), atol=0, rtol=0)
    assert values(found, COUNTS) == [0, 0]
    assert values(found, MEASUREMENTS) == [0.0, 0.0, pytest.approx(1, abs=1e-15), 0, 0.0]
    assert values(found, MISMATCHES) == [None, None]
    assert found.worst() == ()


@pytest.mark.parametrize(
    ("candidate", "reference", "relative", "cosine"),
    [
        pytest.param([0, 0], [0, 0], None, None, id="both"),
        pytest.param([1, 2], [0, 0], None, None, id="the reference"),
        pytest.param([0, 0], [1, 2], 1.0, None, id="the candidate"),
        pytest.param([5e-324, 0], [5e-324, 0], 0.0, 1.0, id="neither, though the squares are"),
    ],
)
def test_what_has_no_norm_to_divide_by_is_none(
    candidate: list[float], reference: list[float], relative: float | None, cosine: float | None
) -> None:
    found = compare_outputs(np.array(candidate, float), np.array(reference, float))
    assert (found.relative_l2_error, found.cosine_similarity) == (relative, cosine)


def test_fp16_is_compared_with_fp32_in_float64() -> None:
    found = compare_outputs(np.array([1, 2], np.float16), np.array([1.0001, 2.0002], np.float32), atol=0.00015, rtol=0)
    assert found.max_absolute_error == float(np.float32(2.0002)) - 2.0
    assert found.outside_tolerance_count == 1
    assert found.outside_tolerance_fraction == 0.5


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"])
def test_narrow_floating_point_types_are_exact(name: str) -> None:
    type_ = getattr(ml_dtypes, name)
    candidate = np.array([1.0, 4.0, 2.0]).astype(type_)
    found = compare_outputs(candidate, np.array([1.0, 3.0, 2.0]))
    assert found.max_absolute_error == 1.0
    assert found.types == (name, "float64")
    assert compare_outputs(candidate, candidate).max_absolute_error == 0.0


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_nans_of_narrow_types_are_counted(name: str) -> None:
    wrong = np.array([1.0, np.nan]).astype(getattr(ml_dtypes, name))
    assert compare_outputs(wrong, np.ones(2)).candidate_nonfinite_count == 1


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@settings(database=None, deadline=None)
@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_integers_are_compared_exactly(data: st.DataObject, left: str, right: str) -> None:
    """Of whatever width and sign."""

    def side(name: str) -> Any:
        near = [value for value in (-1, 2**53, 2**53 + 1, 2**63 - 1) if value in _range(name)]
        return np.array(
            data.draw(st.lists(st.sampled_from([0, *near, _range(name)[-1]]), min_size=5, max_size=5)), name
        )

    candidate, reference = side(left), side(right)
    wrong = [a != b for a, b in zip(candidate.tolist(), reference.tolist(), strict=True)]
    found = compare_outputs(candidate, reference)
    assert found.mismatch_count == sum(wrong)
    assert found.mismatch_fraction == sum(wrong) / 5
    assert [element.index for element in found.worst()] == [(i,) for i, is_wrong in enumerate(wrong) if is_wrong]
    assert values(found, COUNTS + MEASUREMENTS) == [None] * 7


def _range(name: str) -> range:
    limits = np.iinfo(name)
    return range(int(limits.min), int(limits.max) + 1)


def test_neighbours_above_two_to_the_53_are_unequal() -> None:
    found = compare_outputs(np.array([2**53, 7]), np.array([2**53 + 1, 7], np.uint64))
    assert (found.mismatch_count, found.mismatch_fraction) == (1, 0.5)
    assert found.worst() == (ComparedElement(index=(0,), candidate=2**53, reference=2**53 + 1),)


def test_narrow_integers_are_compared_with_wide_ones() -> None:
    candidate = np.array([-8, 7, 0]).astype(ml_dtypes.int4)
    assert compare_outputs(candidate, np.array([-8, 7, 1])).mismatch_count == 1


def test_booleans_are_compared_exactly() -> None:
    found = compare_outputs(np.array([[True, False], [True, True]]), np.array([[True, True], [True, False]]))
    assert (found.mismatch_count, found.mismatch_fraction) == (2, 0.5)
    assert found.worst()[0] == ComparedElement(index=(0, 1), candidate=False, reference=True)


def test_tolerances_are_not_of_integers() -> None:
    assert compare_outputs(np.array([1]), np.array([2]), atol=10, rtol=0).mismatch_count == 1


@pytest.mark.parametrize(
    ("candidate", "reference", "message"),
    [
        pytest.param(np.ones(3), np.ones((3, 1)), r"candidate has shape \(3,\), the reference \(3, 1\)", id="shapes"),
        pytest.param(
            np.ones(3), np.ones(3, int), "float64, floating point; the reference of int64, integer", id="kinds"
        ),
        pytest.param(
            np.ones(3, bool), np.ones(3, np.uint8), "bool, boolean; .* uint8, integer", id="bytes as booleans"
        ),
        pytest.param(np.ones((2, 0)), np.ones((2, 0)), r"shape \(2, 0\) have no element", id="empty"),
        pytest.param(np.ones(3, complex), np.ones(3, complex), "the candidate is of complex128", id="complex"),
        pytest.param(np.ones(3), np.array(["a"] * 3), "the reference is of <U1", id="text"),
        pytest.param(None, np.ones(3), "the candidate is of object", id="nothing"),
    ],
)
def test_what_cannot_be_compared_is_refused(candidate: Any, reference: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare_outputs(candidate, reference)


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="masked"):
        compare_outputs(np.ma.masked_equal([1.0, 2.0], 2.0), np.ones(2))


@pytest.mark.parametrize(
    ("tolerances", "error", "message"),
    [
        pytest.param({"atol": 1e-3}, ValueError, "atol is 0.001 and rtol is None: give both", id="one alone"),
        pytest.param({"rtol": 1e-3}, ValueError, "atol is None and rtol is 0.001: give both", id="the other alone"),
        pytest.param(
            {"atol": -1, "rtol": 0}, ValueError, "atol must be finite and not negative, not -1", id="negative"
        ),
        pytest.param({"atol": 0, "rtol": math.nan}, ValueError, "rtol must be finite .* not nan", id="not a number"),
        pytest.param({"atol": math.inf, "rtol": 0}, ValueError, "atol must be finite .* not inf", id="infinite"),
        pytest.param({"atol": "1", "rtol": 0}, TypeError, "atol must be a number, not str", id="text"),
        pytest.param({"atol": True, "rtol": 0}, TypeError, "atol must be a number, not bool", id="boolean"),
    ],
)
def test_tolerances_are_two_finite_numbers(tolerances: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compare_outputs(np.ones(2), np.ones(2), **tolerances)


def test_tolerances_may_be_numbers_of_numpy() -> None:
    tolerances: Any = (np.float32(0), np.int64(0))
    assert compare_outputs(np.ones(2), np.ones(2), *tolerances).atol == 0.0


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(lambda array: array, id="contiguous"),
        pytest.param(np.asfortranarray, id="by columns"),
        pytest.param(lambda array: np.repeat(array, 2, axis=2)[:, :, ::2], id="strided"),
        pytest.param(lambda array: array[::-1, :, ::-1].copy()[::-1, :, ::-1], id="backwards"),
        pytest.param(lambda array: array.astype(">f4"), id="in the other byte order"),
        pytest.param(
            lambda array: np.frombuffer(b"x" + array.tobytes(), np.float32, offset=1).reshape(array.shape),
            id="unaligned",
        ),
    ],
)
def test_layout_does_not_matter(layout: Any) -> None:
    reference = np.random.default_rng(0).standard_normal((3, 5, BLOCK // 2 + 1), np.float32)
    candidate = reference.copy()
    candidate[2, 1, 4000] += 5
    candidate[0, 4, 17] -= 3
    found = compare_outputs(layout(candidate), np.asfortranarray(reference))
    assert [element.index for element in found.worst()] == [(2, 1, 4000), (0, 4, 17)]
    assert found == dataclasses.replace(compare_outputs(candidate, reference), types=found.types)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_every_element_is_seen_once(size: int) -> None:
    reference = np.arange(size, dtype=np.float64) + 1
    found = compare_outputs(reference + 1, reference, atol=0.5, rtol=0)
    assert found.outside_tolerance_count == size
    assert found.relative_l2_error == pytest.approx(math.sqrt(size / sum(i * i for i in range(1, size + 1))), rel=1e-14)
    last = np.zeros(size, np.int32)
    last[-1] = 1
    assert compare_outputs(last, np.zeros(size, np.int32)).worst()[0].index == (size - 1,)


def test_arrays_without_axes_and_scalars_are_single_elements() -> None:
    found = compare_outputs(np.array(2.0), np.float32(1.0))
    assert (found.shape, found.max_absolute_error, found.worst()[0].index) == ((), 1.0, ())
    assert compare_outputs(3, 4).mismatch_count == 1


@settings(database=None, deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(0, 16))
def test_the_worst_are_the_largest_errors_and_the_first_of_equals(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    reference = random.integers(0, 40, (7, BLOCK // 3)) / 8
    candidate = random.integers(0, 40, reference.shape) / 8
    found = compare_outputs(candidate, reference).worst(n)
    errors = np.abs(candidate - reference).ravel()
    order = np.argsort(-errors, kind="stable")[:n]
    assert [element.index for element in found] == [
        tuple(map(int, np.unravel_index(i, reference.shape))) for i in order
    ]
    assert [element.absolute_error for element in found] == errors[order].tolist()
    assert [element.candidate - element.reference for element in found] == (candidate - reference).ravel()[
        order
    ].tolist()


@pytest.mark.parametrize("n", [-1, 17])
def test_more_than_are_remembered_cannot_be_asked_for(n: int) -> None:
    with pytest.raises(ValueError, match=f"remembers 16 elements, and {n} are asked for"):
        compare_outputs(np.ones(2), np.ones(2)).worst(n)


def test_arrays_may_change_afterwards() -> None:
    """Engines write into the same buffers again."""
    candidate = np.array([1.0, 5.0])
    found = compare_outputs(candidate, np.ones(2))
    candidate[:] = 0
    assert found.worst()[0].candidate == 5.0


def test_inputs_are_left_as_they_are() -> None:
    candidate, reference = np.array([1.0, -5.0]), np.array([-1.0, 2.0])
    candidate.flags.writeable = reference.flags.writeable = False
    compare_outputs(candidate, reference, atol=1, rtol=1)
    assert (candidate.tolist(), reference.tolist()) == ([1.0, -5.0], [-1.0, 2.0])


def test_memory_beyond_the_inputs_is_small() -> None:
    reference = np.ones((4000, 1000), np.float16)
    candidate = np.asfortranarray(reference)
    tracemalloc.start()
    compare_outputs(candidate, reference, atol=0, rtol=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_comparison_is_a_plain_record() -> None:
    found = compare_outputs(np.ones(2), np.zeros(2))
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.max_absolute_error = 0.0  # type: ignore[misc]


def test_text_says_what_was_found() -> None:
    candidate, reference = np.array([[1, 2], [3, 4]], np.float16), np.array([[1, 2], [3, 4.5]], np.float32)
    assert str(compare_outputs(candidate, reference, atol=0.1, rtol=0)) == (
        "float16 against float32, shape (2, 2)\n"
        "  largest absolute error: 0.5\n"
        "  relative L2 error: 0.08544\n"
        "  cosine similarity: 0.998295384\n"
        "  outside tolerance: 1 of 4 (25.000%), atol 0.1, rtol 0\n"
        "  worst: [1, 1]: 4.0 against 4.5, error 0.5"
    )


@pytest.mark.parametrize(
    ("candidate", "reference", "lines"),
    [
        pytest.param([1, 2], [1, 3], ["not equal: 1 of 2 (50.000%)", "first: [1]: 2 against 3"], id="integers"),
        pytest.param([1, 2], [1, 2], ["not equal: 0 of 2 (0.000%)"], id="equal"),
        pytest.param(
            [1.0, math.nan],
            [1.0, 2.0],
            ["not finite: 1 of the candidate, 0 of the reference, of 2 each", "worst: [1]: nan against 2.0, error inf"],
            id="not finite",
        ),
        pytest.param(
            [0.0],
            [0.0],
            [
                "largest absolute error: 0",
                "relative L2 error: the reference is all zeros",
                "cosine similarity: a side is all zeros",
            ],
            id="zeros",
        ),
    ],
)
def test_text_says_why_there_is_no_number(candidate: list[float], reference: list[float], lines: list[str]) -> None:
    assert str(compare_outputs(candidate, reference)).split("\n  ")[1:] == lines


class CupyArray:
    """What is needed of CuPy's arrays, and the sizes of what is copied to the host."""

    copied: list[int]

    def __init__(self, array: Any, copied: list[int]) -> None:
        self._array, self.copied = array, copied
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index: Any) -> CupyArray:
        return CupyArray(self._array[index], self.copied)

    def get(self) -> Any:
        """Copy it to the host."""
        self.copied.append(self._array.size)
        return self._array.copy()


def test_arrays_of_a_gpu_are_brought_over_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CuPy."""
    monkeypatch.setitem(sys.modules, "cupy", type("cupy", (), {"ndarray": CupyArray}))
    reference = np.random.default_rng(0).standard_normal((3, 1 << 20), np.float32)
    candidate = CupyArray(reference.T * 2, [])
    found = compare_outputs(candidate, reference.T)
    assert found.relative_l2_error == pytest.approx(1)
    assert sum(candidate.copied) == reference.size
    assert max(candidate.copied) <= 1 << 20


def test_arrays_that_speak_dlpack_alone_are_read() -> None:
    class Foreign:
        def __init__(self, array: Any) -> None:
            self._array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    assert compare_outputs(Foreign(np.array([1.0, 2.0])), np.array([1.0, 3.0])).max_absolute_error == 1.0
