"""Kernels of the library `other`; the helper beside this file has a namesake in the other library's directory."""

import triton
import triton.language as tl
from constants import FACTOR

from tensoracle_producer import KernelSpec, Pointer

factor = tl.constexpr(FACTOR)


@triton.jit
def scale(x):
    """Multiply by the factor, in place."""
    tl.store(x, tl.load(x) * factor)


KERNELS = [KernelSpec(scale, name="scale_other", arguments=[Pointer("fp32")])]
