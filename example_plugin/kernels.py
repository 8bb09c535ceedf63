"""The kernels of this package; imported while its wheel is built, never at run time."""

import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer, Scalar


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


def variants(element):
    """Aligned rows first, which load 16 bytes at a time; then any."""
    for divisor in (16, 1):
        yield KernelSpec(
            add_rms_norm,
            name=f"add_rms_norm_{element}",
            arguments=[
                *[Pointer(element, divisible_by=divisor)] * 5,  # x, residual, weight, y, r
                Scalar("i32", divisible_by=divisor),  # columns
                Scalar("fp32"),  # epsilon
            ],
            constants={"BLOCK": 1024},
            num_warps=4,
            num_stages=2,
        )


KERNELS = [spec for element in ("fp16", "bf16", "fp32") for spec in variants(element)]
