"""Output allocators are the real binding's: TensorRT takes no others."""

from __future__ import annotations

import sys

from helpers.tools import run

REAL = """
import tensorrt_rtx as trt
from hatch_tensoracle.runtime.output_allocator import output_allocator

class Allocator(trt.IOutputAllocator):
    def __init__(self):
        trt.IOutputAllocator.__init__(self)
    def reallocate_output_async(self, *wanted):
        return 8192
    def notify_shape(self, name, shape):
        print(name, tuple(shape))

made = output_allocator(trt, None)
assert made.reallocate_output_async("y", 0, 48, 256, 3) == 0
for given in (lambda size, alignment, stream: size + alignment + stream, Allocator()):
    made.use(given)
    assert isinstance(made, trt.IOutputAllocator)
    assert type(output_allocator(trt, given)) is type(made)
    print(made.reallocate_output_async("y", 0, 48, 256, 3))
    made.notify_shape("y", trt.Dims((6, 2)))
    print(made.shape)
"""


def test_an_allocator_is_made_from_a_function_and_over_another_one() -> None:
    assert run(sys.executable, "-c", REAL).splitlines() == ["307", "(6, 2)", "8192", "y (6, 2)", "(6, 2)"]
