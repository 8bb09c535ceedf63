"""What the example's kernels must compute, in float64, and how far from it each may be.

The bounds are derived from what the kernels do and what the hardware and its libraries promise; nothing in them was
fitted to results. u is the unit roundoff of fp32, 2^-24, e that of the output's type. Arrays are NumPy's or torch's.

r = x + residual has no bound: it is added in fp32 and rounded once more, as IEEE 754 says: it is known to the bit.

y = r / sqrt(mean(r^2) + epsilon) * weight, relative to its value, from the r that was stored:

- A square has one rounding, and is then added up to ceil(columns / 1024) times in a register. The 1024 partial sums are
  added in 7 steps in a thread (8 values each), 5 in a warp and 2 between 4 warps. All terms are positive, so the sum is
  within (ceil(columns / 1024) + 15) u.
- The division is within 2 ulp (div.full.f32, PTX ISA), which is 4 u; converting columns and adding epsilon are u each.
- The inverse square root halves the error so far and adds 2^-22.4 (rsqrt.approx.f32, PTX ISA), less than 4 u.
- Two products are u each; the output is rounded once, e.

y = gelu(t), t = x w + bias over k products, S = sum |x| |w| + |bias|:

- t, "fp32": k fused multiplications and additions and that of bias: (k + 1) u S.
- t, "fp16" and "tf32": products of 11-bit numbers are exact in fp32. Tensor cores align the terms of an instruction,
  which are at least 4 products and the sum so far, to the greatest and cut them off, and cut off the sum (Fasi, Higham,
  Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021): less than 2 u S for each of k products and twice
  for each of k / 4 instructions, together 3 k u S, and bias is added.
- t, "tf32": the unit reads 10 bits behind the point of each input and ignores the rest, 2^-10 relative, as Triton
  converts nothing (tl.dot's documentation warns of it): (2^-9 + 2^-20) S more.
- t of integers up to 1024 whose S is below 2^24 is exact, in every precision and order: nothing is there to cut off.
- gelu's slope is at most 1.13.
- In 0.5 t (1 + erf(t / sqrt 2)) erf is within 2 ulp (CUDA's single-precision table), 4 u; its argument has two
  roundings, which it hands on with at most 0.49 of their 2 u; adding 1 is 2 u, so the factor is within 7 u, and with
  the product's rounding y is within 4.5 u |t|.
- The output is rounded once, e |y|.

Below the normal numbers a rounding is absolute: FLOOR. Terms of second order are 1% of the first
at most, up to k = 40000.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["EPSILON", "matmul_bias_gelu", "rms_norm", "worst"]

U = 2.0**-24
ROUNDOFF = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": U}
FLOOR = {"fp16": 2.0**-25, "bf16": 2.0**-126, "fp32": 2.0**-126}
"""Half the distance of fp16's subnormal numbers; others may be flushed to zero."""
EPSILON = float.fromhex("0x1.4f8b58p-17")  # 1e-5 in fp32, which the field is
_SECOND_ORDER = 1.01


def rms_norm(r: Any, weight: Any, type_: str) -> tuple[Any, Any]:
    """The y that belongs to a stored r of (rows, columns), and the greatest error of each element."""
    columns = r.shape[-1]
    r, weight = _double(r), _double(weight)
    y = r / ((r * r).mean(-1) + EPSILON)[..., None] ** 0.5 * weight
    squares = -(-columns // 1024) + 15
    relative = ((squares + 6) / 2 + 4 + 2) * U * _SECOND_ORDER
    return y, _rounded(abs(y), abs(y) * relative, type_)


def matmul_bias_gelu(x: Any, w: Any, bias: Any, precision: str, *, exact: bool = False) -> tuple[Any, Any]:
    """The y of x (..., k), w (k, n) and bias (n), and the greatest error of each element.

    `precision` is `fp16`, `tf32` or `fp32`, that of the kernel. `exact` says that inputs are integers, and so small.
    """
    k = w.shape[0]
    x, w, bias = _double(x), _double(w), _double(bias)
    t = x @ w + bias
    error = (abs(x) @ abs(w) + abs(bias)) * (0.0 if exact else sum_error(k, precision))
    y = 0.5 * t * (1 + _erf(t * 0.5**0.5))
    return y, _rounded(abs(y), 1.13 * error + 4.5 * U * abs(t), "fp16" if precision == "fp16" else "fp32")


def sum_error(k: int, precision: str) -> float:
    """The error of a sum of k products and a bias, relative to the sum of their magnitudes."""
    summed = (k if precision == "fp32" else 3 * k) + 1
    inputs = 2.0**-9 + 2.0**-20 if precision == "tf32" else 0.0
    return (summed * U + inputs) * _SECOND_ORDER


def worst(got: Any, expected: Any, bound: Any) -> float:
    """The greatest error in units of its bound; NaN if there is any."""
    return float((abs(_double(got) - expected) / bound).max()) if math.prod(got.shape) else 0.0


def _rounded(value: Any, error: Any, type_: str) -> Any:
    return error + (value + error) * ROUNDOFF[type_] + FLOOR[type_]


def _double(array: Any) -> Any:
    return array.double() if hasattr(array, "double") else array.astype("float64")


def _erf(array: Any) -> Any:
    import numpy as np

    return array.erf() if hasattr(array, "erf") else np.vectorize(math.erf, otypes=["float64"])(array)
