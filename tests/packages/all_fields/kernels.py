"""One kernel, as small as one can be."""

import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer


@triton.jit
def negate(x, y, BLOCK: tl.constexpr):
    """Negate x, a block at a time."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, -tl.load(x + offsets))


KERNELS = [KernelSpec(negate, name="negate", arguments=[Pointer("fp32"), Pointer("fp32")], constants={"BLOCK": 128})]
