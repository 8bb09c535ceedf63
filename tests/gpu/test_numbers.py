"""Every kernel, data type, variant and tactic against float64, within bounds that references.py derives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu.bench import Bench
from gpu.machine import packed
from gpu.references import matmul_bias_gelu, rms_norm, worst

pytestmark = pytest.mark.filterwarnings("default")  # torch's are not ours

Record = Callable[[str, object], None]

TILES = {  # of each configuration, as kernels.py has them; the first tactic, auto, takes one of them
    "tensor cores": [(128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (16, 64)],
    "none": [(64, 64), (64, 32), (32, 64), (32, 32), (16, 32), (16, 16)],
}
BK = {"fp16": (64,) * 6, "tf32": (32,) * 6, "fp32": (16, 16, 16, 16, 16, 32)}
TACTICS = [pytest.param(tactic, id="auto" if tactic == 1 else f"configuration {tactic - 2}") for tactic in range(1, 8)]
COLUMNS = {  # around the blocks of 1024 and 4096
    "aligned": [8, 16, 48, 1016, 1024, 1032, 2040, 2048, 2056, 4088, 4096, 4104, 8184, 8192, 8200],
    "unaligned": [1, 2, 7, 33, 1009, 1023, 1025, 2047, 2049, 4095, 4097, 4099, 8191, 8193],
}


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    if not module.cuda.is_available():
        pytest.skip(f"torch {module.__version__} finds no GPU")
    module.zeros(1, device="cuda")  # makes a context
    return module


@pytest.fixture(scope="module")
def bench(library: Path, torch: Any) -> Iterator[Bench]:
    from hatch_tensoracle.testing import PluginHarness

    with PluginHarness(library) as harness:
        yield Bench(torch, harness)
        assert not [message.text for message in harness.messages if message.severity in {"ERROR", "WARNING"}]


def check_norm(
    bench: Bench, type_: str, shape: tuple[int, ...], offsets: tuple[int, ...] = (0, 0, 0, 0, 0), *, tactic: int = 1
) -> float:
    """One execution on random numbers; x, residual, weight, y and r begin that many elements off."""
    given = [
        bench.normal(each, type_, offset) for each, offset in zip([shape, shape, shape[-1:]], offsets[:3], strict=True)
    ]
    y, r = (bench.empty(shape, type_, offset) for offset in offsets[3:])
    bench.norm(type_, given, [y, r], tactic=tactic)
    x, residual, weight = (each.view for each in given)
    where = f"{type_} {shape} {offsets} tactic {tactic}"
    assert bench.torch.equal(r.view, (x.float() + residual.float()).to(x.dtype)), f"{where}: r differs"
    error = worst(y.view, *rms_norm(r.view, weight, type_))
    assert error <= 1, f"{where}: an error is {error} times its bound"
    for array in (*given, y, r):
        array.check_margins(where)
    return error


@pytest.mark.parametrize("variant", ["aligned", "unaligned"])
@pytest.mark.parametrize("tactic", TACTICS[:3])
@pytest.mark.parametrize("type_", ["fp16", "bf16", "fp32"])
def test_add_rms_norm(bench: Bench, type_: str, tactic: int, variant: str, record: Record) -> None:
    chance = random.Random(f"{type_} {variant}")  # noqa: S311 - no secret
    bench.torch.manual_seed(1)
    even = (0, 0, 0, 0, 0)
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for columns, rows in itertools.product(COLUMNS[variant], (1, 2, 3, 133)):
        cases.append(((rows, columns), even))
    for _ in range(30):
        columns = chance.randrange(1, 10000)
        columns += -columns % 8 if variant == "aligned" else columns % 8 == 0
        cases.append(((chance.randrange(1, 300), columns), even))
    cases += [((2, 3, 5, 1024 + (variant == "unaligned")), even), ((512 + (variant == "unaligned"),), even)]
    if variant == "unaligned":  # by one pointer each, then by all
        one_off = [tuple(int(i == j) for j in range(5)) for i in range(5)]
        cases += [((7, columns), offsets) for columns in (16, 1024, 2048) for offsets in [*one_off, (1, 3, 5, 7, 1)]]
    record("error/bound", max(check_norm(bench, type_, *case, tactic=tactic) for case in cases))


@pytest.mark.parametrize("shape", [(0, 64), (3, 0, 64), (0, 7)], ids=str)
@pytest.mark.parametrize("type_", ["fp16", "bf16", "fp32"])
def test_add_rms_norm_of_nothing_writes_nothing(bench: Bench, type_: str, shape: tuple[int, ...]) -> None:
    for tactic in range(1, 4):
        check_norm(bench, type_, shape, tactic=tactic)


@pytest.mark.parametrize("tactic", TACTICS[1:3])
@pytest.mark.parametrize("columns", [4096, 4099], ids=["aligned", "unaligned"])
def test_add_rms_norm_of_more_than_2_to_31_elements(bench: Bench, columns: int, tactic: int, record: Record) -> None:
    rows = 2**31 // columns + 5
    needed, (free, _) = 4 * 2 * rows * columns + (2 << 30), bench.torch.cuda.mem_get_info()
    if free < needed:
        pytest.skip(f"{needed / 2**30:.0f} GiB of device memory are needed, {free / 2**30:.0f} are free")
    bench.torch.manual_seed(2)
    shape = (rows, columns)
    given = [bench.normal(each, "fp16") for each in (shape, shape, (columns,))]
    y, r = (bench.empty(shape, "fp16") for _ in range(2))
    bench.norm("fp16", given, [y, r], tactic=tactic)
    x, residual, weight = (each.view for each in given)
    errors = []
    for first in range(0, rows, 8192):
        block = slice(first, first + 8192)
        total = (x[block].float() + residual[block].float()).half()
        assert bench.torch.equal(r.view[block], total), f"rows from {first}: r differs"
        errors.append(worst(y.view[block], *rms_norm(r.view[block], weight, "fp16")))
        assert errors[-1] <= 1, f"rows from {first}: an error is {errors[-1]} times its bound"
    for array in (*given, y, r):
        array.check_margins(str(shape))
    record("error/bound", max(errors))
    del given, x, residual, weight, y, r
    bench.torch.cuda.empty_cache()


def check_matmul(  # noqa: PLR0913 - what there is to vary
    bench: Bench,
    precision: str,
    shape: tuple[int, int, int],
    *,
    tactic: int,
    offsets: tuple[int, int, int] = (0, 0, 0),
    exact: bool = False,
    leading: tuple[int, ...] = (),
) -> float:
    """One execution; x, w and y begin that many elements off.

    With `exact`, inputs are small integers, of which every kernel's sum is exact whatever its order or precision: the
    bound for it is that of a single product, and an element that is left out or read twice is seen.
    """
    m, n, k = shape
    type_ = "fp16" if precision == "fp16" else "fp32"
    make = bench.integers if exact else bench.normal
    given = [make((*leading, m, k), type_, offsets[0]), make((k, n), type_, offsets[1])]
    bias = make((n,), "fp32").view
    y = bench.empty((*leading, m, n), type_, offsets[2])
    bench.matmul(precision, given, bias, y, tactic=tactic)
    x, w = (each.view for each in given)
    expected, bound = matmul_bias_gelu(x, w, bias, precision, exact=exact)
    where = f"{precision} {shape} {offsets} tactic {tactic}"
    error = worst(y.view, expected, bound)
    assert error <= 1, f"{where}: an error is {error} times its bound"
    for array in (*given, y):
        array.check_margins(where)
    return error


def tiles_of(precision: str, tactic: int) -> tuple[int, int, int]:
    """BM, BN and BK of a tactic."""
    configuration = max(tactic - 2, 0)
    tiles = TILES["none" if precision == "fp32" else "tensor cores"]
    return (*tiles[configuration], BK[precision][configuration])


@pytest.mark.parametrize("variant", ["aligned", "unaligned"])
@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("precision", ["fp16", "tf32", "fp32"])
def test_matmul_bias_gelu_around_tile_edges(
    bench: Bench, precision: str, tactic: int, variant: str, record: Record
) -> None:
    bench.torch.manual_seed(3)
    bm, bn, bk = tiles_of(precision, tactic)
    step = 16 if variant == "aligned" else 1
    edges = [[edge - 1, edge, edge + 1] for edge in (bm, 2 * bm)]
    columns, inner = ([edge - step, edge, edge + step] for edge in (bn, bk))
    shapes = [
        *itertools.product(edges[0], columns, inner),
        *itertools.product(edges[1], (2 * bn - step, 2 * bn + step), (3 * bk - step, 3 * bk, 3 * bk + step)),
    ]
    # Divisible extents are unaligned by their pointers.
    offsets = itertools.cycle([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 3, 5)] if variant == "unaligned" else [(0, 0, 0)])
    errors = [
        check_matmul(bench, precision, shape, tactic=tactic, offsets=next(offsets), exact=True)
        for shape in shapes
        if all(shape)
    ]
    record("error/bound", max(errors))


@pytest.mark.parametrize("variant", ["aligned", "unaligned"])
@pytest.mark.parametrize("tactic", TACTICS)
@pytest.mark.parametrize("precision", ["fp16", "tf32", "fp32"])
def test_matmul_bias_gelu_of_random_shapes(
    bench: Bench, precision: str, tactic: int, variant: str, record: Record
) -> None:
    chance = random.Random(f"{precision} {tactic} {variant}")  # noqa: S311 - no secret
    bench.torch.manual_seed(4)
    shapes = [(1, 1, 1), (1, 17, 3), (300, 1, 5), (37, 2049, 4097)]
    shapes += [(chance.randrange(1, 700), chance.randrange(1, 700), chance.randrange(1, 1000)) for _ in range(12)]
    if variant == "aligned":
        shapes = [(m, n + -n % 16, k + -k % 16) for m, n, k in shapes]
    errors = [check_matmul(bench, precision, shape, tactic=tactic) for shape in shapes]
    errors.append(check_matmul(bench, precision, (5, 48, 80), tactic=tactic, leading=(2, 3)))
    record("error/bound", max(errors))


@pytest.mark.parametrize("shape", [(0, 32, 16), (0, 33, 17), (5, 32, 0), (130, 7, 0)], ids=str)
@pytest.mark.parametrize("precision", ["fp16", "tf32", "fp32"])
def test_matmul_bias_gelu_of_nothing(bench: Bench, precision: str, shape: tuple[int, int, int]) -> None:
    """Without rows there is no output; a sum of no products is the bias."""
    for tactic in range(1, 8):
        check_matmul(bench, precision, shape, tactic=tactic)


def test_ieee_is_more_precise_than_tf32_can_be(bench: Bench, record: Record) -> None:
    """On the same numbers IEEE stays below its bound, which TF32's loss of input digits exceeds."""
    bench.torch.manual_seed(5)
    given = [bench.normal(shape, "fp32") for shape in ((256, 64), (64, 256))]
    bias = bench.empty((256,), "fp32").view.zero_()
    expected, bound = matmul_bias_gelu(given[0].view, given[1].view, bias, "fp32")
    errors = {}
    for precision, tactic in itertools.product(("fp32", "tf32"), range(1, 8)):
        y = bench.empty((256, 256), "fp32")
        bench.matmul(precision, given, bias, y, tactic=tactic)
        errors[precision, tactic] = worst(y.view, expected, bound)
    record("errors in units of the IEEE bound", str(errors))
    for (precision, tactic), error in errors.items():
        assert error <= 1 if precision == "fp32" else error > 1, f"{precision}, tactic {tactic}: {error}"


def test_ptx_compiled_by_the_driver(torch: Any) -> None:
    """The library has cubins for other GPUs, and PTX."""
    from hatch_tensoracle.testing import PluginHarness

    path = packed("ptx")
    if not path.is_file():
        pytest.skip(f"{path} does not exist: it was packed without PTX")
    torch.manual_seed(6)
    with PluginHarness(path) as harness:
        bench = Bench(torch, harness)
        for type_ in ("fp16", "bf16", "fp32"):
            for shape in ((3, 1024), (3, 4096), (5, 1025)):
                check_norm(bench, type_, shape)
        for precision in ("fp16", "tf32", "fp32"):
            for shape3 in ((200, 144, 96), (131, 77, 65)):
                check_matmul(bench, precision, shape3, tactic=1)
