"""Sample kernels: small, so that one compiles in a tenth of a second."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import triton
import triton.language as tl


@triton.jit
def copy(source, target, size, BLOCK: tl.constexpr):
    """Elementwise; takes any element type."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i, mask=i < size), mask=i < size)


@triton.jit
def convert(source, target, BLOCK: tl.constexpr):
    """Rounds to the target's element type."""
    i = tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i).to(target.dtype.element_ty))


@triton.jit
def fill(target, value, size, BLOCK: tl.constexpr):
    """Stores a scalar of any type, as it was passed."""
    i = tl.arange(0, BLOCK)
    tl.store(target + i, value, mask=i < size)


@triton.jit
def strided(source, target, stride, BLOCK: tl.constexpr):
    """Reads with a stride, which is often one."""
    i = tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i * stride))


@triton.jit
def typed(x, stride, TYPE: tl.constexpr):
    """Is sure of the type that arithmetic with an argument has."""
    offset = tl.program_id(0).to(tl.int8) * stride
    tl.static_assert(offset.dtype == TYPE)
    tl.store(x + offset, 1.0)


@triton.jit
def choose(x, SCALE: tl.constexpr, MODE: tl.constexpr, TYPE: tl.constexpr, ROUND: tl.constexpr, F: tl.constexpr):
    """Takes a constant of every kind."""
    value = tl.load(x)
    if SCALE is not None:
        value = value * SCALE
    if MODE == "double":
        value = value + value
    if ROUND:
        value = value.to(TYPE).to(tl.float32)
    tl.store(x, F(value))


@triton.jit
def square(x):
    """For constants that are functions."""
    return x * x


@triton.jit
def square_all(x):
    """Compiles, and calls a helper."""
    tl.store(x, square(tl.load(x)))


@triton.jit
def scaled(x, BLOCK: tl.constexpr = 64, FACTOR: tl.constexpr = 2.0):
    """Has defaults."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * FACTOR)


@triton.jit
def multiply_add(x):
    """Is one instruction or two."""
    tl.store(x, tl.load(x) * tl.load(x + 1) + tl.load(x + 2))


@triton.jit
def matmul(a, b, c, N: tl.constexpr):
    """Needs shared memory for its two operands, twice at two stages."""
    i = tl.arange(0, N)
    inside = i[:, None] * N + i[None, :]
    total = tl.zeros((N, N), dtype=tl.float32)
    for step in range(4):
        total += tl.dot(tl.load(a + step * N * N + inside), tl.load(b + step * N * N + inside))
    tl.store(c + inside, total)


@triton.jit
def matmuls(a, b, c, steps, N: tl.constexpr):
    """Accumulates two products at once, in tensor memory where there is any."""
    i, j = tl.arange(0, N), tl.arange(0, 32)
    first, second = tl.zeros((N, N), dtype=tl.float32), tl.zeros((N, N), dtype=tl.float32)
    for step in range(steps):
        rows = tl.load(a + step * N * 32 + i[:, None] * 32 + j[None, :])
        columns = b + step * 2 * N * 32 + j[:, None] * N + i[None, :]
        first = tl.dot(rows, tl.load(columns), first)
        second = tl.dot(rows, tl.load(columns + N * 32), second)
    tl.store(c + i[:, None] * N + i[None, :], first)
    tl.store(c + N * N + i[:, None] * N + i[None, :], second)


@triton.jit
def waits(x):
    """Waits for the kernel that was launched before it."""
    tl.extra.cuda.gdc_wait()
    tl.store(x, tl.load(x) + 1.0)


@triton.jit
def releases(x):
    """Lets the kernel begin that is launched after it."""
    tl.store(x, tl.load(x) + 1.0)
    tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def described(x, rows):
    """Makes a tensor descriptor on the device, for which some targets need scratch memory."""
    descriptor = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [16, 64])
    descriptor.store([0, 0], descriptor.load([0, 0]) + 1.0)


@triton.jit
def annotated(source: tl.tensor_descriptor):
    """Takes a tensor descriptor of the host."""
    source.store([0, 0], source.load([0, 0]) + 1.0)


@triton.jit
def undeclared(source):
    """Takes one without saying so."""
    source.store([0, 0], source.load([0, 0]) + 1.0)


@triton.jit
def shaped(x, SHAPE: tl.constexpr):
    """Takes a tuple."""
    i = tl.arange(0, SHAPE[0])
    tl.store(x + i, (i + SHAPE[1][0]).to(SHAPE[2]).to(tl.float32))


@triton.jit
def nothing(N: tl.constexpr):
    """Has no argument that is passed."""
    tl.static_assert(N > 0)


@triton.jit
def reports(x):
    """Has strings in its cubin."""
    value = tl.load(x)
    tl.static_assert(value.dtype == tl.float32, "only for fp32")
    tl.device_assert(value > 0, "must be positive")
    tl.device_print("value", value)
    tl.store(x, value)


@triton.jit
def misspelt(x):
    """Fails in the front end, in a helper."""
    tl.store(x, _broken(tl.load(x)))


@triton.jit
def _broken(value):
    return value * undefined_name  # noqa: F821 - the defect


@triton.jit
def recursive(x):
    """Calls itself, with another argument."""
    recursive(x + 1)


@triton.jit
def circular(x):
    """Calls what calls it."""
    _back(x)


@triton.jit
def _back(x):
    circular(x + 1)


@triton.jit
def bad_assembly(x):
    """Fails in ptxas."""
    value = tl.load(x)
    tl.store(x, tl.inline_asm_elementwise("nonsense $0, $1;", "=r,r", [value], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def bad_constraint(x):
    """LLVM prints an error and goes on with the instruction left out."""
    value = tl.load(x)
    tl.store(x, tl.inline_asm_elementwise("mov.u32 $0, $1;", "=x,r", [value], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def bad_pack(x):
    """Fails in MLIR, which prints of what."""
    i = tl.arange(0, 2)
    value = tl.load(x + i)
    tl.store(x + i, tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [value], dtype=tl.int32, is_pure=True, pack=4))


@triton.jit
def aborts(x):
    """LLVM ends its process on the operand number."""
    value = tl.load(x)
    tl.store(x, tl.inline_asm_elementwise("mov.u32 $0, $7;", "=r,r", [value], dtype=tl.int32, is_pure=True, pack=1))
