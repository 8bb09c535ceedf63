"""Executing on arrays, on the stand-in and with small stand-ins for torch and CuPy.

They have what is used of the two, with the names that their documents give: https://docs.pytorch.org/docs/stable and
https://docs.cupy.dev/en/stable. No element is read or written.
"""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np  # noqa: TID253 - what shape tensors come out as
import pytest

from hatch_tensoracle._arrays import DevicePointer
from hatch_tensoracle.runtime.execution import EngineExecution
from runtime.conftest import Opener
from runtime.stand_in import JOURNAL, tensor

X = tensor("INPUT", (-1, 2), profiles=[[[1, 2], [4, 2], [8, 2]]])
Y = tensor("OUTPUT", ("x.0", 3), dtype="HALF")
X4, Y4 = ((4, 2), "fp32"), ((4, 3), "fp16")
ITEM_SIZES = {"float32": 4, "float16": 2, "uint8": 1}


class Array:
    """An array of either library, at an address of its own."""

    made = 0

    def __init__(self, shape: Any, dtype: str, device: Any = None, stream: int = 0, address: int | None = None) -> None:
        Array.made += 1
        self.shape, self.dtype, self.device, self.stream = tuple(shape), dtype, device, stream
        if address is None:  # neither library has memory for no elements
            address = 0 if 0 in self.shape else 0x10000 * Array.made
        self.address = address
        self.data = SimpleNamespace(ptr=self.address)

    def data_ptr(self) -> int:
        """Torch's."""
        return self.address

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = np.dtype(self.dtype).str
        return {"shape": self.shape, "typestr": typestr, "data": (self.address, False), "strides": None, "version": 3}

    def __getitem__(self, part: slice) -> Array:
        return type(self)((part.stop,), self.dtype, self.device, self.stream, self.address)

    def view(self, dtype: str) -> Array:
        """The same bytes as another type."""
        size = math.prod(self.shape) // ITEM_SIZES[dtype]
        return type(self)((size,), dtype, self.device, self.stream, self.address)

    def reshape(self, shape: Any) -> Array:
        """The same elements."""
        assert math.prod(shape) == math.prod(self.shape)
        return type(self)(shape, self.dtype, self.device, self.stream, self.address)


class Library:
    """What the two have in common: a current stream, and memory that belongs to it."""

    def __init__(self, name: str) -> None:
        self.name, self.streams = name, [77]
        self.array = type("Array", (Array,), {"__module__": name})
        self.float32, self.float16, self.uint8 = ITEM_SIZES
        current = SimpleNamespace(cuda_stream=77, ptr=77)
        self.cuda = SimpleNamespace(
            current_stream=lambda _device: current,
            get_current_stream=lambda: current,
            ExternalStream=self.external_stream,
            stream=lambda stream: stream,
        )

    @contextlib.contextmanager
    def external_stream(self, handle: int, device: Any = None) -> Any:
        """A stream that somebody else made."""
        assert device is not None
        self.streams.append(handle)
        yield
        self.streams.pop()

    def empty(self, shape: Any, *, dtype: str, device: Any = None) -> Array:
        """A new array, for the current stream."""
        made: Array = self.array(shape, dtype, device, self.streams[-1])
        return made


class Device(contextlib.nullcontext[None]):
    """CuPy's is a context manager with a number."""

    id = 0


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The library where it is looked for once an array of it is seen."""
    library = Library(request.param)
    monkeypatch.setitem(sys.modules, library.name, library)
    return library


def executed() -> list[tuple[Any, ...]]:
    return [call for call in JOURNAL if call[0] in {"set_tensor_address", "execute_async_v3"}]


def test_outputs_are_allocated_by_the_inputs_library_on_its_stream(opened: Opener, library: Library) -> None:
    x = library.array((4, 2), "float32", Device())
    results = EngineExecution(opened(x=X, y=Y))({"x": x})
    y = results["y"]
    assert list(results) == ["y"]
    assert (type(y), y.shape, y.dtype, y.stream) == (library.array, (4, 3), "float16", 77)
    assert executed() == [
        ("set_tensor_address", "x", x.address),
        ("set_tensor_address", "y", y.address),
        ("execute_async_v3", 77),
    ]


def test_memory_belongs_to_the_stream_that_is_given(opened: Opener, library: Library) -> None:
    x = library.array((4, 2), "float32", Device())
    y = EngineExecution(opened(x=X, y=Y))({"x": x}, stream=SimpleNamespace(cuda_stream=5))["y"]
    assert y.stream == 5
    assert executed()[-1] == ("execute_async_v3", 5)


def test_outputs_that_are_given_are_written(opened: Opener, library: Library) -> None:
    x, y = library.array((4, 2), "float32", Device()), library.array((4, 3), "float16")
    before = Array.made
    assert EngineExecution(opened(x=X, y=Y))({"x": x}, {"y": y}) == {"y": y}
    assert Array.made == before


@pytest.mark.parametrize("others", [{}, {"w": tensor("INPUT", (5,))}], ids=["alone", "with others"])
def test_arrays_without_elements_have_the_address_of_any_memory(
    opened: Opener, library: Library, others: dict[str, Any]
) -> None:
    """The null pointer that they have is none that TensorRT takes."""
    x, w = (library.array(shape, "float32", Device()) for shape in ((0, 2), (5,)))
    empty = tensor("INPUT", (-1, 2), profiles=[[[0, 2], [4, 2], [8, 2]]])
    execution = EngineExecution(opened(x=empty, **others, y=Y, z=tensor("OUTPUT", ("x.0", 2), aliased="x")))
    results = execution({"x": x} | dict.fromkeys(others, w))
    assert (results["y"].shape, results["z"]) == ((0, 3), x)
    addresses = {call[1]: call[2] for call in executed()[:-1]}
    assert addresses.keys() == {"x", "y", "z", *others}
    (address,) = set(addresses.values())
    assert address == w.address if others else address > w.address


def test_outputs_of_any_size_grow_in_the_library(opened: Opener, library: Library) -> None:
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("?6", 2))))
    for _ in range(2):
        y = execution({"x": library.array((4, 2), "float32", Device())})["y"]
        assert (y.shape, y.dtype, y.stream) == ((6, 2), "float32", 77)


def test_memory_of_outputs_of_any_size_goes_with_the_result(
    opened: Opener, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Array]] = []

    def empty(*shape: Any, **given: Any) -> Array:
        array = Library.empty(library, *shape, **given)
        made.append(weakref.ref(array))
        return array

    monkeypatch.setattr(library, "empty", empty)
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("?6", 2))))
    for _ in range(3):
        execution({"x": library.array((4, 2), "float32", Device())})
        gc.collect()
        assert [array() for array in made] == [None] * len(made)
    assert len(made) == 3
    assert [call for call in JOURNAL if call[0] == "set_output_allocator"] == [("set_output_allocator", "y", True)]


def test_the_caller_s_allocator_is_left_alone(opened: Opener, library: Library) -> None:
    for x in (library.array((4, 2), "float32", Device()), DevicePointer(256, (4, 2), "fp32")):
        execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("?6", 2)), z=Y))
        for name in ("y", "z"):
            execution.set_output_allocator(name, lambda size, *_: 4096 + size)
        for _ in range(2):
            assert execution({"x": x}, stream=0) == {
                "y": DevicePointer(4096 + 48, (6, 2), "fp32"),
                "z": DevicePointer(4096 + 24, (4, 3), "fp16"),
            }


def test_an_output_is_given_once_it_has_no_allocator(opened: Opener) -> None:
    x, y = DevicePointer(256, *X4), DevicePointer(512, *Y4)
    execution = EngineExecution(opened(x=X, y=Y))
    execution.set_output_allocator("y", lambda *_: 4096)
    with pytest.raises(ValueError, match=r"output 'y' has an allocator: call set_output_allocator\('y', None\)"):
        execution({"x": x}, {"y": y}, stream=0)
    assert executed() == []
    execution.set_output_allocator("y", None)
    assert execution({"x": x}, {"y": y}, stream=0) == {"y": y}
    assert ("set_tensor_address", "y", 512) in executed()


def test_outputs_of_any_size_cannot_be_given(opened: Opener, library: Library) -> None:
    x, y = library.array((4, 2), "float32", Device()), library.array((6, 2), "float32", Device())
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("?6", 2))))
    for _ in range(2):
        with pytest.raises(ValueError, match="the data decide the size of output 'y': not `out`, set_output_allocator"):
            execution({"x": x}, {"y": y})
        assert execution({"x": x})["y"].shape == (6, 2)
    with pytest.raises(TypeError, match="allocate output 'y' here: call set_output_allocator"):
        execution({"x": DevicePointer(256, *X4)}, stream=77)


def test_an_output_over_an_input_is_that_array(opened: Opener, library: Library) -> None:
    x = library.array((4, 2), "float32", Device())
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("x.0", 2), aliased="x")))
    assert execution({"x": x})["y"] is x


def test_shape_tensors_are_numbers(opened: Opener, library: Library) -> None:
    target = tensor("INPUT", (2,), dtype="INT64", values=[[[1, 1], [4, 4], [8, 8]]])
    size = tensor("OUTPUT", (2,), dtype="INT32", contents=("target[1]", "x.0"))
    execution = EngineExecution(opened(x=X, target=target, y=tensor("OUTPUT", ("target[0]",)), size=size))
    x = library.array((4, 2), "float32", Device())
    with pytest.raises(ValueError, match=r"output 'size' is a shape tensor, .*: it is returned, not given in `out`"):
        execution({"x": x, "target": (3, 7)}, {"size": x})
    with pytest.raises(TypeError, match="the shape of input 'target' must be a sequence of integers, not array"):
        execution({"x": x, "target": np.array(3)})
    assert ("execute_async_v3", 77) not in JOURNAL
    for contents in ([3, 7], [3, 7], [1, 2]):
        results = execution({"x": library.array((4, 2), "float32", Device()), "target": np.array(contents)})
        assert results["y"].shape == (contents[0],)
        np.testing.assert_array_equal(results["size"], np.array([contents[1], 4], np.int32), strict=True)


def test_pointers_and_other_libraries_need_stream_and_outputs(opened: Opener) -> None:
    x, y = DevicePointer(256, (4, 2), "fp32"), DevicePointer(512, (4, 3), "fp16")
    execution = EngineExecution(opened(x=X, y=Y))
    with pytest.raises(TypeError, match="no library whose current stream is known: give the stream"):
        execution({"x": x})
    with pytest.raises(TypeError, match="no library that can allocate output 'y' here: give it in `out`"):
        execution({"x": x}, stream=0)
    assert execution({"x": x}, {"y": y}, stream=0) == {"y": y}
    assert executed()[-1] == ("execute_async_v3", 0)


@pytest.mark.parametrize(
    ("inputs", "out", "error", "message"),
    [
        ({}, {}, ValueError, "inputs: missing 'x'"),
        ({"x": ((4, 2), "fp32"), "y": ((4, 3), "fp16")}, {}, ValueError, "inputs: unexpected 'y'"),
        ({"x": ((4, 2), "fp16")}, {}, TypeError, "tensor 'x' is fp32, the array is fp16"),
        ({"x": ((4, 3), "fp32")}, {}, ValueError, r"input 'x' is \(4, 3\), profile 0 takes"),
        ({"x": ((4, 2), "fp32")}, {"z": ((4, 3), "fp16")}, ValueError, "out: .*unexpected 'z'"),
        ({"x": ((4, 2), "fp32")}, {"y": ((4, 3), "fp32")}, TypeError, "tensor 'y' is fp16, the array is fp32"),
        ({"x": ((4, 2), "fp32")}, {"y": ((5, 3), "fp16")}, ValueError, r"'y' has shape \(4, 3\), the array \(5, 3\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(
    opened: Opener, inputs: dict[str, Any], out: dict[str, Any], error: type[Exception], message: str
) -> None:
    def pointers(of: dict[str, Any]) -> dict[str, DevicePointer]:
        return {name: DevicePointer(256, shape, type_) for name, (shape, type_) in of.items()}

    with pytest.raises(error, match=message):
        EngineExecution(opened(x=X, y=Y))(pointers(inputs), pointers(out), stream=0)
    assert executed() == []


def test_arrays_on_another_gpu_than_the_current_one_are_refused(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatch_tensoracle.runtime.arrays.current_device", lambda: 1)
    x, y = ([DevicePointer(at, *what, gpu) for gpu in (0, 1)] for at, what in ((256, X4), (512, Y4)))
    execution = EngineExecution(opened(x=X, y=Y))
    with pytest.raises(ValueError, match="tensor 'x' is on GPU 0, the current one is GPU 1: make it current"):
        execution({"x": x[0]}, {"y": y[0]}, stream=0)
    assert JOURNAL == []  # no context on the wrong one
    with pytest.raises(ValueError, match="tensor 'y' is on GPU 0, the current one is GPU 1"):
        execution({"x": x[1]}, {"y": y[0]}, stream=0)
    assert executed() == []
    execution({"x": x[1]}, {"y": y[1]}, stream=0)
    assert executed()[-1] == ("execute_async_v3", 0)


def test_a_type_that_no_array_has_is_refused_before_anything_is_enqueued(opened: Opener) -> None:
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("x.0",), dtype="FP4")))
    execution.set_output_allocator("y", lambda *_: 4096)
    with pytest.raises(TypeError, match="tensor 'y' is FP4, which no array is: use enqueue"):
        execution({"x": DevicePointer(256, *X4)}, stream=0)
    assert executed() == []


def test_arrays_on_the_host_are_refused_by_name(opened: Opener) -> None:
    with pytest.raises(TypeError, match="tensor 'x': a ndarray is not in device memory"):
        EngineExecution(opened(x=X, y=Y))({"x": np.zeros((4, 2), np.float32)}, stream=0)


@pytest.mark.parametrize("dtype", ["BF16", "FP8"])
@pytest.mark.parametrize(
    ("shape", "remedy"), [(("x.0",), "give it in `out`"), (("?6",), "call set_output_allocator")], ids=["known", "any"]
)
def test_a_type_that_the_library_has_not_is_refused_before_anything_is_enqueued(
    opened: Opener, library: Library, shape: tuple[str, ...], dtype: str, remedy: str
) -> None:
    """CuPy has neither, torch has fp8 since 2.1: the small torch here has neither, too."""
    x = library.array((4, 2), "float32", Device())
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", shape, dtype=dtype)))
    for _ in range(2):
        with pytest.raises(TypeError, match=f"(torch|CuPy) has no {dtype.lower()}, which output 'y' is: {remedy}"):
            execution({"x": x})
    assert executed() == []


def test_arrays_that_their_library_does_not_hand_over_are_refused_by_name(opened: Opener) -> None:
    class Differentiated:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **_: Any) -> object:
            raise BufferError("Can't export tensors that require gradient")  # torch's

    with pytest.raises(ValueError, match="tensor 'x': a Differentiated cannot be handed over: Can't export tensors"):
        EngineExecution(opened(x=X, y=Y))({"x": Differentiated()}, stream=0)


class ReadOnly:
    """An array that must not be written to."""

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, True), "version": 3}


def test_arrays_for_reading_only_are_inputs_and_no_outputs(opened: Opener) -> None:
    x, y = ReadOnly(256, (4, 2), "<f4"), DevicePointer(512, *Y4)
    execution = EngineExecution(opened(x=X, y=Y))
    assert execution({"x": x}, {"y": y}, stream=0) == {"y": y}
    JOURNAL.clear()
    with pytest.raises(ValueError, match="tensor 'y': the array is for reading only, and would be written to"):
        execution({"x": x}, {"y": ReadOnly(512, (4, 3), "<f2")}, stream=0)
    over = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("x.0", 2), aliased="x")))
    with pytest.raises(ValueError, match="tensor 'x': the array is for reading only"):
        over({"x": x}, stream=0)
    assert executed() == []


def test_an_array_is_not_written_to_while_it_is_read(opened: Opener) -> None:
    x = DevicePointer(256, *X4)
    execution = EngineExecution(opened(x=X, y=tensor("OUTPUT", ("x.0", 2))))
    with pytest.raises(ValueError, match="tensors 'x' and 'y' overlap"):
        execution({"x": x}, {"y": x}, stream=0)
    assert executed() == []
