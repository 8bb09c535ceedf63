"""A plugin at run time: attached to an execution context, and executed on streams."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Self

from hatch_tensoracle._arrays import DevicePointer, device_pointer, stream_handle
from hatch_tensoracle.testing import abi, arrays
from hatch_tensoracle.testing.cuda import Cuda
from hatch_tensoracle.testing.errors import PluginTestError
from hatch_tensoracle.testing.plugin_object import PluginObject
from hatch_tensoracle.testing.signature import Signature
from hatch_tensoracle.testing.tensors import Shape, Tensor, byte_size

__all__ = ["RunningPlugin"]


class RunningPlugin:
    """A plugin in an execution context. As a context manager it is destroyed at the end."""

    def __init__(self, engine: PluginObject, signature: Signature, tactic: int) -> None:
        self._cuda = Cuda()
        context = self._cuda.current_context()
        if context is None:
            message = f"{engine.name}: no CUDA context is current on this thread"
            raise PluginTestError(message, remedy="Create one, with Cuda().create_context() or by a framework's use.")
        self._context = context
        self._engine = engine
        self._plugin = engine.attach()
        self._signature = signature
        self._last_shapes: tuple[Shape, ...] | None = None
        self.set_tactic(tactic)
        self._workspace = self._cuda.allocate(signature.workspace) if signature.workspace else 0
        self._workspace_id = self._cuda.buffer_id(self._workspace) if self._workspace else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Destroy the plugin and free its workspace."""
        self._plugin.close()
        self._engine.close()
        workspace, self._workspace = self._workspace, 0
        if workspace and self._cuda.buffer_id(workspace) == self._workspace_id:  # it went with its context otherwise
            with self._context:
                self._cuda.free(workspace)

    def set_tactic(self, tactic: int) -> None:
        """Choose a tactic, as TensorRT does between timings. Raises PluginFailedError; ValueError for no int32."""
        if not -(2**31) <= tactic < 2**31:
            message = f"tactic {tactic} is no int32, which TensorRT's tactics are: it must be -2**31 to 2**31 - 1"
            raise ValueError(message)
        self._plugin.do("runtime", "SetTactic", ctypes.c_int32(tactic))

    def output_shapes(self, inputs: Sequence[Shape]) -> tuple[Shape, ...]:
        """The outputs' shapes for inputs of these; upper bounds where an extent depends on the data."""
        return self._signature.shapes.evaluate(inputs)

    def enqueue(self, inputs: Sequence[Any], outputs: Sequence[Any], stream: Any = None) -> None:
        """Enqueue one execution on the caller's stream, and tell the plugin before it if shapes have changed.

        Inputs and outputs are DevicePointer, or arrays in device memory that speak DLPack or
        __cuda_array_interface__. Nothing but the plugin's own methods is called: the stream may be under capture. A
        tensor without elements is handed over as a null pointer. Raises PluginFailedError.
        """
        given = [_pointer("input", i, array, is_written=i in self._signature.aliases) for i, array in enumerate(inputs)]
        taken = [_pointer("output", i, array, is_written=True) for i, array in enumerate(outputs)]
        handle = stream_handle(stream)
        shapes = tuple(pointer.shape for pointer in given)
        _check_types("input", self._signature.inputs, given)
        _check_range(self._signature.inputs, shapes)
        _check_types("output", self._signature.outputs, taken)
        _check_shapes(self.output_shapes(shapes), taken)
        tensors = (self._signature.inputs, self._signature.outputs)
        descs = [_descs(known, each) for known, each in zip(tensors, (given, taken), strict=True)]
        if shapes != self._last_shapes:
            counts = [ctypes.c_int32(len(each)) for each in (given, taken)]
            self._plugin.do("runtime", "OnShapeChange", descs[0], counts[0], descs[1], counts[1])
            self._last_shapes = shapes
        addresses = [_addresses(each) for each in (given, taken)]
        self._plugin.do("runtime", "Enqueue", *descs, *addresses, self._workspace or None, ctypes.c_void_p(handle))

    def run(self, inputs: Sequence[Any], stream: Any = None) -> list[Any]:
        """Execute on NumPy arrays: copy them to the device, enqueue, wait, and return the outputs as NumPy arrays."""
        _check_count("input", self._signature.inputs, inputs)
        types = [tensor.type for tensor in self._signature.inputs]
        hosts = [_host(i, array, types[i]) for i, array in enumerate(inputs)]
        given = tuple(array.shape for array in hosts)
        _check_range(self._signature.inputs, given)
        shapes = self.output_shapes(given)
        placed: list[DevicePointer] = []
        owned: list[int] = []
        try:
            for type_, array in zip(types, hosts, strict=True):
                placed.append(self._place(type_, array.shape, owned))
                if array.nbytes:
                    self._cuda.copy_to_device(placed[-1].address, array.tobytes())
            results = [
                self._place(tensor.type, shape, owned)
                if alias is None
                else DevicePointer(placed[alias].address, shape, tensor.type)
                for tensor, shape, alias in zip(self._signature.outputs, shapes, self._signature.aliases, strict=True)
            ]
            # Documented: a copy from pageable memory may return when it is staged. The default stream knows its end.
            self._cuda.synchronize(0)
            self.enqueue(placed, results, stream)
            self._cuda.synchronize(stream_handle(stream))
            return self._read(given, results)
        finally:
            for address in owned:
                self._cuda.free(address)

    def _place(self, type_: str, shape: Shape, owned: list[int]) -> DevicePointer:
        size = byte_size(type_, shape)
        address = self._cuda.allocate(size) if size else 0
        if size:
            owned.append(address)
        return DevicePointer(address, tuple(shape), type_)

    def _read(self, inputs: Sequence[Shape], results: Sequence[DevicePointer]) -> list[Any]:
        """Copy outputs back, cut to the shapes that the size tensors among them tell."""
        sizes = {
            output: int(arrays.from_bytes(self._copy(results[output]), results[output].type, ())[()])
            for output in self._signature.shapes.size_tensors
        }
        shapes = self._signature.shapes.evaluate(inputs, sizes)
        return [
            arrays.from_bytes(self._copy(DevicePointer(result.address, shape, result.type)), result.type, shape)
            for result, shape in zip(results, shapes, strict=True)
        ]

    def _copy(self, pointer: DevicePointer) -> bytes:
        size = byte_size(pointer.type, pointer.shape)
        return self._cuda.copy_to_host(pointer.address, size) if size else b""


def _pointer(what: str, i: int, array: Any, *, is_written: bool) -> DevicePointer:
    try:
        return device_pointer(array, is_written=is_written)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} {i}: {error}") from error


def _host(i: int, array: Any, type_: str) -> Any:
    try:
        return arrays.host_array(array, type_)
    except (TypeError, ValueError) as error:
        raise type(error)(f"input {i}: {error}") from error


def _check_count(what: str, tensors: Sequence[Tensor], given: Sequence[Any]) -> None:
    if len(given) != len(tensors):
        message = f"{len(given)} {what}s are given; the plugin has {len(tensors)}"
        raise ValueError(message)


def _check_types(what: str, tensors: Sequence[Tensor], pointers: Sequence[DevicePointer]) -> None:
    _check_count(what, tensors, pointers)
    for i, (tensor, pointer) in enumerate(zip(tensors, pointers, strict=True)):
        if pointer.type != tensor.type:
            message = f"{what} {i} is of type {pointer.type}; the plugin was built for {tensor.type}"
            raise TypeError(message)


def _check_range(tensors: Sequence[Tensor], shapes: Sequence[Shape]) -> None:
    for i, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        least, greatest = tensor.bound("min"), tensor.bound("max")
        extents = zip(least, shape, greatest, strict=False)
        if len(shape) != len(least) or not all(low <= extent <= high for low, extent, high in extents):
            message = f"input {i} has shape {shape}; the plugin was built for {least} to {greatest}"
            raise ValueError(message)


def _check_shapes(expected: Sequence[Shape], pointers: Sequence[DevicePointer]) -> None:
    for i, (shape, pointer) in enumerate(zip(expected, pointers, strict=True)):
        if tuple(pointer.shape) != shape:
            message = f"output {i} has shape {pointer.shape}; for these inputs it is {shape}"
            raise ValueError(message)


def _descs(tensors: Sequence[Tensor], pointers: Sequence[DevicePointer]) -> ctypes.Array[abi.TensorDesc]:
    descs = (tensor.desc(pointer.shape) for tensor, pointer in zip(tensors, pointers, strict=True))
    return (abi.TensorDesc * len(pointers))(*descs)


def _addresses(pointers: Sequence[DevicePointer]) -> ctypes.Array[ctypes.c_void_p]:
    addresses = (None if 0 in pointer.shape else pointer.address for pointer in pointers)
    return (ctypes.c_void_p * len(pointers))(*addresses)
