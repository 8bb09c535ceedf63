"""Eight fixed kernels of the kinds that model packages carry; each compiles in 0.3 to 2 seconds a target."""

import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer, Scalar


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (first + inner)[None, :], mask=(first + inner)[None, :] < K, other=0.0)
        right = tl.load(b + (first + inner)[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def matmul_gelu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile_m, tile_n = tl.swizzle2d(tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, GROUP)
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (first + inner)[None, :], mask=rows[:, None] < M, other=0.0)
        right = tl.load(b + (first + inner)[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        total = tl.dot(left, right, total)
    total = gelu(total + tl.load(bias + columns, mask=columns < N, other=0.0)[None, :].to(tl.float32))
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1).to(tl.int64) * length * D
    depth = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + depth[None, :], mask=rows[:, None] < length, other=0.0)
    highest = tl.full((BM,), float("-inf"), dtype=tl.float32)
    weights = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, D), dtype=tl.float32)
    for first in range(0, length, BN):
        columns = first + tl.arange(0, BN)
        key = tl.load(k + head + columns[None, :] * D + depth[:, None], mask=columns[None, :] < length, other=0.0)
        score = tl.dot(query, key) * scale
        score = tl.where((columns[None, :] < length) & (columns[None, :] <= rows[:, None]), score, float("-inf"))
        now = tl.maximum(highest, tl.max(score, 1))
        share = tl.exp2(score - now[:, None])
        faded = tl.exp2(highest - now)
        weights = weights * faded + tl.sum(share, 1)
        value = tl.load(v + head + columns[:, None] * D + depth[None, :], mask=columns[:, None] < length, other=0.0)
        total = tl.dot(share.to(value.dtype), value, total * faded[:, None])
        highest = now
    total /= weights[:, None]
    tl.store(out + head + rows[:, None] * D + depth[None, :], total.to(out.dtype.element_ty), rows[:, None] < length)


@triton.jit
def layer_norm(x, weight, bias, y, columns, epsilon, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value) / columns
    centred = tl.where(inside, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / columns + epsilon)
    factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + start + column, (centred * scale * factor + offset).to(y.dtype.element_ty), mask=inside)


@triton.jit
def sort_rows(x, y, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    value = tl.load(x + start + column, mask=column < columns, other=float("inf"))
    tl.store(y + start + column, tl.sort(value), mask=column < columns)


@triton.jit
def scan_rows(x, y, columns, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    column = tl.arange(0, BLOCK)
    at = rows[:, None].to(tl.int64) * columns + column[None, :]
    value = tl.load(x + at, mask=column[None, :] < columns, other=0.0).to(tl.float32)
    value = tl.exp(value - tl.max(value, 1)[:, None])
    summed = tl.cumsum(value / tl.sum(value, 1)[:, None], 1)
    tl.store(y + at, summed.to(y.dtype.element_ty), mask=column[None, :] < columns)


@triton.jit
def convolve(x, w, y, C, H, W, F, BP: tl.constexpr, BF: tl.constexpr, BC: tl.constexpr):
    pixels = tl.program_id(0) * BP + tl.arange(0, BP)
    filters = tl.program_id(1) * BF + tl.arange(0, BF)
    channels = tl.arange(0, BC)
    row, column = pixels // W, pixels % W
    total = tl.zeros((BP, BF), dtype=tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            r, s = row + dy - 1, column + dx - 1
            inside = (r >= 0) & (r < H) & (s >= 0) & (s < W)
            for first in range(0, C, BC):
                c = first + channels
                patch = tl.load(x + (r * W + s)[:, None] * C + c[None, :], inside[:, None] & (c < C)[None, :], 0.0)
                part = tl.load(w + ((dy * 3 + dx) * C + c)[:, None] * F + filters[None, :], (c < C)[:, None], 0.0)
                total = tl.dot(patch, part, total)
    tl.store(y + pixels[:, None] * F + filters[None, :], total.to(y.dtype.element_ty), (pixels < H * W)[:, None])


def pointers(element, count):
    return [Pointer(element, divisible_by=16)] * count


def sizes(count):
    return [Scalar("i32", divisible_by=16)] * count


TILE = {"BM": 128, "BN": 128, "BK": 32}
KERNELS: list[KernelSpec] = [
    KernelSpec(matmul, name="matmul_fp16", arguments=[*pointers("fp16", 3), *sizes(3)], constants=TILE),
    KernelSpec(
        matmul,
        name="matmul_fp32",
        arguments=[*pointers("fp32", 3), *sizes(3)],
        constants={"BM": 64, "BN": 64, "BK": 32},
    ),
    KernelSpec(
        matmul_gelu,
        name="matmul_gelu",
        arguments=[*pointers("bf16", 4), *sizes(3)],
        constants={"BM": 64, "BN": 64, "BK": 32, "GROUP": 8},
    ),
    KernelSpec(
        attention,
        name="attention",
        arguments=[*pointers("fp16", 4), *sizes(1), Scalar("fp32")],
        constants={"BM": 64, "BN": 64, "D": 64},
    ),
    KernelSpec(
        layer_norm,
        name="layer_norm",
        arguments=[*pointers("fp16", 4), *sizes(1), Scalar("fp32")],
        constants={"BLOCK": 8192},
        num_warps=8,
    ),
    KernelSpec(sort_rows, name="sort_rows", arguments=[*pointers("fp32", 2), *sizes(1)], constants={"BLOCK": 128}),
    KernelSpec(scan_rows, name="scan_rows", arguments=[*pointers("fp32", 2), *sizes(1)], constants={"BLOCK": 256}),
    KernelSpec(
        convolve,
        name="convolve",
        arguments=[*pointers("fp16", 3), *sizes(4)],
        constants={"BP": 64, "BF": 64, "BC": 32},
        num_stages=2,
    ),
]


@triton.jit
def twenty(p0, p1, p2, p3, p4, p5, p6, target, n0, n1, n2, n3, n4, n5, n6, f0, f1, f2, f3, last):
    """Takes 20 arguments, for the launcher to pass."""
    total = tl.load(p0) + tl.load(p1) + tl.load(p2) + tl.load(p3) + tl.load(p4) + tl.load(p5) + tl.load(p6)
    tl.store(target, total + (n0 + n1 + n2 + n3 + n4 + n5 + n6 + last) + f0 + f1 + f2 + f3)
