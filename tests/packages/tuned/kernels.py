"""One kernel for two types. By the fake driver's clock each configuration is the fastest for some sizes."""

import triton
import triton.language as tl

from tensoracle_producer import Config, KernelSpec, Pointer, Scalar


@triton.jit
def scale(x, y, size, factor, BLOCK: tl.constexpr, ADD: tl.constexpr):
    """Multiply x, a block at a time."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < size).to(tl.float32) * factor + ADD
    tl.store(y + i, value.to(y.dtype.element_ty), mask=i < size)


KERNELS = [
    KernelSpec(
        scale,
        name=f"scale_{element}",
        arguments=[Pointer(element), Pointer(element), Scalar("i32"), Scalar("fp32")],
        constants={"ADD": 0},
        configs=[
            Config(BLOCK=64, num_warps=1),
            Config(BLOCK=256, num_warps=2),
            Config(BLOCK=1024, num_warps=4),
        ],
        num_stages=1,
    )
    for element in ("fp32", "fp16")
]
