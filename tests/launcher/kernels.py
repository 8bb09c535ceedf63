"""Kernels for the launcher's tests: what they compute does not matter, what they take does."""

import triton
import triton.language as tl

from tensoracle_producer import Config, KernelSpec, Pointer, Scalar


@triton.jit
def every_type(target, i1, i8, i16, i32, i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64):
    """Takes a scalar of every type."""
    integers = i1.to(tl.int64) + i8 + i16 + i32 + i64
    integers += u8.to(tl.int64) + u16.to(tl.int64) + u32.to(tl.int64) + u64.to(tl.int64)
    numbers = fp16.to(tl.float64) + bf16.to(tl.float64) + fp32.to(tl.float64) + fp64
    tl.store(target, integers.to(tl.float64) + numbers)


@triton.jit
def copied(
    source, target, size, stride, BLOCK: tl.constexpr, NAME: tl.constexpr, RATIO: tl.constexpr, FLAG: tl.constexpr
):
    """Copies with a stride, and has a constant of every kind."""
    tl.static_assert(NAME == "text" and RATIO == 0.5 and FLAG)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i * stride, mask=i < size), mask=i < size)


@triton.jit
def multiplied(a, b, c, N: tl.constexpr):
    """Keeps tiles of its operands in shared memory, at two stages 64 KiB of them."""
    i = tl.arange(0, N)
    inside = i[:, None] * N + i[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for step in range(4):
        total += tl.dot(tl.load(a + step * N * N + inside), tl.load(b + step * N * N + inside))
    tl.store(c + inside, total)


SCALARS = ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64")
CONSTANTS = {"BLOCK": 64, "NAME": "text", "RATIO": 0.5, "FLAG": True}


def copy_spec(name, divisor=1, *, stride=None, **options):
    """A copy whose pointers and size are multiples of the divisor, and whose stride may be known."""
    constants = {key: value for key, value in CONSTANTS.items() if key != "BLOCK" or "configs" not in options}
    pointers = [Pointer("fp32", divisible_by=divisor)] * 2
    arguments = [*pointers, Scalar("i32", divisible_by=divisor), Scalar("i64", equal_to=stride)]
    return KernelSpec(copied, name=name, arguments=arguments, constants=constants, **options)


TILES = [Config(BLOCK=64, num_warps=1), Config(BLOCK=128, num_warps=2), Config(BLOCK=256)]

KERNELS = [
    KernelSpec(every_type, name="every_type", arguments=[Pointer("fp64"), *map(Scalar, SCALARS)]),
    copy_spec("guarded", 16, stride=1),
    copy_spec("guarded", 16),
    copy_spec("guarded"),
    copy_spec("only_aligned", 16, stride=1),
    *(copy_spec("tiled", divisor, configs=TILES) for divisor in (16, 1)),
    KernelSpec(
        multiplied,
        name="shared",
        arguments=[Pointer("fp16"), Pointer("fp16"), Pointer("fp32")],
        constants={"N": 128},
        num_stages=2,
        num_warps=8,
    ),
]
