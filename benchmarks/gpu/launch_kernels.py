"""Small kernels of 5 and of 20 arguments, each in two variants: for the cost of the launch itself."""

import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer, Scalar


@triton.jit
def five(x, y, n, scale, last):
    tl.store(y, tl.load(x) * scale + (n + last))


@triton.jit
def twenty(p0, p1, p2, p3, p4, p5, p6, target, n0, n1, n2, n3, n4, n5, n6, f0, f1, f2, f3, last):
    total = tl.load(p0) + tl.load(p1) + tl.load(p2) + tl.load(p3) + tl.load(p4) + tl.load(p5) + tl.load(p6)
    tl.store(target, total + (n0 + n1 + n2 + n3 + n4 + n5 + n6 + last) + f0 + f1 + f2 + f3)


def variants(function, pointers, numbers):
    """All divisible by 16, and any."""
    for divisor in (16, 1):
        number = Scalar("i32", divisible_by=divisor)
        yield KernelSpec(
            function,
            name=function.__name__,
            arguments=[
                *[Pointer("fp32", divisible_by=divisor)] * pointers,
                *[number] * numbers,
                *[Scalar("fp32")] * (4 if numbers > 1 else 1),
                number,
            ],
        )


KERNELS = [*variants(five, 2, 1), *variants(twenty, 8, 7)]
