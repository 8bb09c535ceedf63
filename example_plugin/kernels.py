"""The kernels of this package; imported while its wheel is built, never at run time."""

import triton
import triton.language as tl

from tensoracle_producer import Config, KernelSpec, Pointer, Scalar


@triton.jit
def add_rms_norm(x, residual, weight, y, r, columns, epsilon, BLOCK: tl.constexpr):
    """One program a row: r = x + residual, y = r / sqrt(mean(r^2) + epsilon) * weight, in fp32 between."""
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        column = first + offsets
        inside = column < columns
        total = tl.load(x + start + column, mask=inside, other=0.0).to(tl.float32)
        total += tl.load(residual + start + column, mask=inside, other=0.0).to(tl.float32)
        total = total.to(r.dtype.element_ty)
        tl.store(r + start + column, total, mask=inside)
        squares += total.to(tl.float32) * total.to(tl.float32)
    tl.debug_barrier()  # r is read back below, perhaps by another thread than the one that wrote it
    scale = tl.rsqrt(tl.sum(squares) / columns + epsilon)
    for first in range(0, columns, BLOCK):
        column = first + offsets
        inside = column < columns
        total = tl.load(r + start + column, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + start + column, (total * scale * factor).to(y.dtype.element_ty), mask=inside)


@triton.jit
def matmul_bias_gelu(
    x, w, bias, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):
    """One program a tile of BM x BN: y = gelu(x @ w + bias), summed in fp32."""
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    # Eight rows of tiles at a time, so that programs that run together share inputs in the L2 cache.
    tile_m, tile_n = tl.swizzle2d(tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, 8)
    row = tile_m * BM + tl.arange(0, BM)
    column = tile_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    x_tile = x + row.to(tl.int64)[:, None] * k + inner[None, :]
    w_tile = w + inner.to(tl.int64)[:, None] * n + column[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, k, BK):
        left = tl.load(x_tile, mask=(row[:, None] < m) & (first + inner[None, :] < k), other=0.0)
        right = tl.load(w_tile, mask=(first + inner[:, None] < k) & (column[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        x_tile += BK
        w_tile += BK * n.to(tl.int64)
    total += tl.load(bias + column, mask=column < n, other=0.0)[None, :]
    total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(y + row.to(tl.int64)[:, None] * n + column[None, :], total.to(y.dtype.element_ty), mask=inside)


def add_rms_norm_variants(element):
    """Aligned rows first, which load 8 or 16 bytes at a time; then any. Each in both configurations."""
    for divisor, columns in ((16, 8), (1, 1)):
        yield KernelSpec(
            add_rms_norm,
            name=f"add_rms_norm_{element}",
            arguments=[
                *[Pointer(element, divisible_by=divisor)] * 5,  # x, residual, weight, y, r
                Scalar("i32", divisible_by=columns),  # columns
                Scalar("fp32"),  # epsilon
            ],
            num_stages=2,
            configs=ROW_BLOCKS,
        )


def matmul_variants(name, element, precision, tiles):
    """The same, each in every configuration."""
    for divisor in (16, 1):
        yield KernelSpec(
            matmul_bias_gelu,
            name=f"matmul_bias_gelu_{name}",
            arguments=[
                *[Pointer(element, divisible_by=divisor)] * 2,  # x, w
                Pointer("fp32", divisible_by=divisor),  # bias
                Pointer(element, divisible_by=divisor),  # y
                Scalar("i32"),  # m
                *[Scalar("i32", divisible_by=divisor)] * 2,  # n, k
            ],
            constants={"PRECISION": precision},
            configs=tiles,
        )


# For short rows and unaligned ones; for long rows, of which fewer are then between their two passes: r stays in the L2.
ROW_BLOCKS = [Config(BLOCK=1024, num_warps=8), Config(BLOCK=4096, num_warps=16)]

# From the largest tiles to the smallest. The first three need more than 48 KB of shared memory for their stages.
TENSOR_CORE_TILES = {
    "fp16": [
        Config(BM=128, BN=128, BK=64, num_warps=8, num_stages=3),
        Config(BM=128, BN=64, BK=64, num_warps=4, num_stages=3),
        Config(BM=64, BN=128, BK=64, num_warps=4, num_stages=3),
        Config(BM=64, BN=64, BK=64, num_warps=4, num_stages=3),
        Config(BM=32, BN=64, BK=64, num_warps=4, num_stages=3),
        Config(BM=16, BN=64, BK=64, num_warps=4, num_stages=3),
    ],
    "fp32": [
        Config(BM=128, BN=128, BK=32, num_warps=8, num_stages=3),
        Config(BM=128, BN=64, BK=32, num_warps=4, num_stages=3),
        Config(BM=64, BN=128, BK=32, num_warps=4, num_stages=3),
        Config(BM=64, BN=64, BK=32, num_warps=4, num_stages=3),
        Config(BM=32, BN=64, BK=32, num_warps=4, num_stages=3),
        Config(BM=16, BN=64, BK=32, num_warps=4, num_stages=3),
    ],
}
# Without tensor cores: each thread keeps less.
TILES = [
    Config(BM=64, BN=64, BK=16, num_warps=8, num_stages=3),
    Config(BM=64, BN=32, BK=16, num_warps=4, num_stages=3),
    Config(BM=32, BN=64, BK=16, num_warps=4, num_stages=3),
    Config(BM=32, BN=32, BK=16, num_warps=4, num_stages=3),
    Config(BM=16, BN=32, BK=16, num_warps=2, num_stages=3),
    Config(BM=16, BN=16, BK=32, num_warps=1, num_stages=3),
]

KERNELS = [
    *(spec for element in ("fp16", "bf16", "fp32") for spec in add_rms_norm_variants(element)),
    *matmul_variants("fp16", "fp16", "tf32", TENSOR_CORE_TILES["fp16"]),
    *matmul_variants("tf32", "fp32", "tf32", TENSOR_CORE_TILES["fp32"]),
    *matmul_variants("fp32", "fp32", "ieee", TILES),
]
