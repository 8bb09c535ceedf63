"""Executes on arrays in device memory, of any library that speaks DLPack or `__cuda_array_interface__`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hatch_tensoracle._arrays import DevicePointer, device_pointer, stream_handle
from hatch_tensoracle.data_types import NUMPY_NAMES, named
from hatch_tensoracle.runtime.addresses import wrong_names
from hatch_tensoracle.runtime.array_library import ArrayLibrary, library_of
from hatch_tensoracle.runtime.engine_tensors import EngineTensor
from hatch_tensoracle.runtime.execution import EngineExecution
from hatch_tensoracle.runtime.gpu import current_device
from hatch_tensoracle.runtime.values import not_by_name

__all__ = ["DevicePointer", "execute_on_arrays"]

Shape = tuple[int, ...]


def execute_on_arrays(
    execution: EngineExecution, inputs: Mapping[str, Any], out: Mapping[str, Any] | None, stream: Any
) -> dict[str, Any]:
    """Set shapes, enqueue, and return every output by name, without waiting. See EngineExecution.__call__."""
    tensors = execution.tensors
    names = [name for name, tensor in tensors.items() if tensor.is_input]
    outputs = [name for name, tensor in tensors.items() if not tensor.is_input]
    _check_names(inputs, {} if out is None else out, names, outputs)
    results = dict(out or {})
    for tensor in tensors.values():
        _type(tensor)  # before anything is enqueued
    placed = {name: _place(execution, name, inputs[name]) for name in names if not tensors[name].is_shape_tensor}
    _check_devices(placed)  # before there is a context on the wrong one
    library = next(filter(None, (library_of(inputs[name]) for name in placed)), None)
    if stream is None and library is None:
        raise TypeError("the inputs are of no library whose current stream is known: give the stream")
    handle = library.current_stream() if stream is None and library is not None else stream_handle(stream)
    shapes = {name: placed[name].shape if name in placed else inputs[name] for name in names}
    execution.set_input_shapes(shapes, stream=handle)
    grown: dict[str, _Growing] = {}
    with library.on_stream(handle) if library is not None else contextlib.nullcontext():
        for name in outputs:
            shape = execution.get_tensor_shape(name)
            if name in results:
                _check_may_be_given(execution, name, shape)
            else:
                _provide(execution, name, shape, inputs, results, library, grown)
            if name in results:
                placed[name] = _place(execution, name, results[name], shape)
        _check_devices(placed)
        execution.enqueue(_addresses(placed, library), stream=handle)
    for name, growing in grown.items():
        shape = execution.get_tensor_shape(name)
        # The allocator is kept until the next call: the memory goes with the result.
        memory, growing.memory = growing.memory, None
        used = memory[: math.prod(shape) * tensors[name].dtype.itemsize]
        results[name] = growing.library.reinterpret(used, shape, _type(tensors[name]))
    return {name: results[name] if name in results else _other_result(execution, name) for name in outputs}


def _check_names(inputs: Mapping[str, Any], out: Mapping[str, Any], names: list[str], outputs: list[str]) -> None:
    for what, given in (("inputs", inputs), ("out", out)):
        if not hasattr(given, "keys"):
            raise not_by_name(what, given)
    if inputs.keys() != set(names):
        raise wrong_names("inputs", inputs, names)
    if not out.keys() <= set(outputs):
        raise wrong_names("out", out, outputs)


@dataclass(slots=True)
class _Growing:
    """The allocator of an output of any size where the caller has set none, and the memory that it gave."""

    library: ArrayLibrary
    memory: Any = None

    def __call__(self, size: int, _alignment: int, _stream: int) -> int:
        # Both libraries' allocations are aligned to more than TensorRT asks for, 256 bytes.
        self.memory = self.library.empty((max(size, 1),), "u8")
        return self.library.address(self.memory)


def _is_growing(execution: EngineExecution, name: str, shape: Shape) -> bool:
    # The shape alone does not tell: it is the last execution's until the inputs' shapes change.
    allocator = execution.allocators.get(name)
    return -1 in shape or (allocator is not None and isinstance(allocator.given, _Growing))


def _check_may_be_given(execution: EngineExecution, name: str, shape: Shape) -> None:
    if execution.tensors[name].is_shape_tensor:
        raise ValueError(f"output {name!r} is a shape tensor, which is on the host: it is returned, not given in `out`")
    if _is_growing(execution, name, shape):
        raise ValueError(f"the data decide the size of output {name!r}: not `out`, set_output_allocator is for it")
    if name in execution.allocators:
        raise ValueError(f"output {name!r} has an allocator: call set_output_allocator({name!r}, None) before `out`")


def _provide(  # noqa: PLR0913, PLR0917 - what a call has gathered
    execution: EngineExecution,
    name: str,
    shape: Shape,
    inputs: Mapping[str, Any],
    results: dict[str, Any],
    library: ArrayLibrary | None,
    grown: dict[str, _Growing],
) -> None:
    """Put memory for an output into `results`, or have it put into `grown` once its size is known."""
    tensor, allocator = execution.tensors[name], execution.allocators.get(name)
    if tensor.is_shape_tensor or (allocator is not None and not isinstance(allocator.given, _Growing)):
        return
    if tensor.aliased_input is not None:
        results[name] = inputs[tensor.aliased_input]
    elif _is_growing(execution, name, shape):
        grown[name] = _Growing(_required(library, tensor, "call set_output_allocator"))
        execution.set_output_allocator(name, grown[name])
    else:
        results[name] = _required(library, tensor, "give it in `out`").empty(shape, _type(tensor))


def _place(execution: EngineExecution, name: str, array: Any, shape: Shape | None = None) -> DevicePointer:
    """Return where an array lies if it can be that tensor."""
    try:
        found = device_pointer(array, is_written=execution.tensors[name].is_written)
    except (TypeError, ValueError) as error:
        raise type(error)(f"tensor {name!r}: {error}") from error
    if found.type != (expected := _type(execution.tensors[name])):
        raise TypeError(f"tensor {name!r} is {expected}, the array is {found.type}")
    if shape is not None and found.shape != shape:
        raise ValueError(f"tensor {name!r} has shape {shape}, the array {found.shape}")
    return found


def _check_devices(placed: Mapping[str, DevicePointer]) -> None:
    """Raise ValueError for an array that is known to be on another GPU than TensorRT works on."""
    known = {name: pointer.device for name, pointer in placed.items() if pointer.device is not None}
    current = current_device() if known else None
    for name, device in known.items():
        if device != current:
            raise ValueError(f"tensor {name!r} is on GPU {device}, the current one is GPU {current}: make it current")


def _addresses(placed: Mapping[str, DevicePointer], library: ArrayLibrary | None) -> dict[str, int]:
    """Where each lies. An array without elements may lie nowhere, which TensorRT refuses: any memory does for it."""
    addresses = {name: pointer.address for name, pointer in placed.items()}
    nowhere = [name for name, pointer in placed.items() if not pointer.address and 0 in pointer.shape]
    if nowhere:
        other = next(filter(None, addresses.values()), 0)
        if not other and library is not None:
            other = library.address(library.empty((1,), "u8"))  # freed in the stream's order
        addresses |= dict.fromkeys(nowhere, other)
    return addresses


def _type(tensor: EngineTensor) -> str:
    found = named(tensor.dtype.name)
    if found not in NUMPY_NAMES:
        raise TypeError(f"tensor {tensor.name!r} is {tensor.dtype.name}, which no array is: use enqueue")
    return found


def _required(library: ArrayLibrary | None, tensor: EngineTensor, otherwise: str) -> ArrayLibrary:
    """Return the library if it can make the tensor's arrays, which is found out before anything is enqueued."""
    if library is None:
        raise TypeError(f"the inputs are of no library that can allocate output {tensor.name!r} here: {otherwise}")
    if not library.has(type_ := _type(tensor)):
        raise TypeError(f"{library.name} has no {type_}, which output {tensor.name!r} is: {otherwise}")
    return library


def _other_result(execution: EngineExecution, name: str) -> Any:
    """Return what the caller's allocator gave, or a shape tensor's contents."""
    if (allocator := execution.allocators.get(name)) is not None:
        return DevicePointer(allocator.address, execution.get_tensor_shape(name), _type(execution.tensors[name]))
    import numpy as np

    values = np.array(execution.get_tensor_values(name), execution.get_tensor_dtype(name).name.lower())
    return values.reshape(execution.get_tensor_shape(name))
