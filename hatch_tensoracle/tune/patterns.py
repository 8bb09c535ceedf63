"""Random elements of every data type, in device memory."""

from __future__ import annotations

from hatch_tensoracle.testing import Cuda, Stream
from hatch_tensoracle.testing.tensors import byte_size

__all__ = ["Patterns"]

_SIZE = 1 << 22  # bytes, after which values repeat
_SEED = 7


class Patterns:
    """What tensors are filled with: floating-point values about 0, and integers that are 0 or 1.

    Multiplying zeros takes less power than multiplying what models hold, and runs at higher clocks. Integers may be
    indices, which must be inside something.
    """

    def __init__(self, cuda: Cuda, stream: Stream) -> None:
        self._cuda, self._stream = cuda, stream
        self._addresses: dict[str, int] = {}

    def fill(self, address: int, type_: str, size: int) -> None:
        """Enqueue filling `size` bytes at the address."""
        if type_ not in self._addresses:
            self._addresses[type_] = self._cuda.allocate(_SIZE)
            self._cuda.copy_to_device(self._addresses[type_], _random(type_))
            self._cuda.synchronize(0)  # a copy from pageable memory may still be under way
        for offset in range(0, size, _SIZE):
            self._stream.copy(address + offset, self._addresses[type_], min(_SIZE, size - offset))


def _random(type_: str) -> bytes:
    import numpy as np

    random = np.random.default_rng(_SEED)
    count = 8 * _SIZE // (8 * byte_size(type_, (1,)))
    match type_:
        case "fp32" | "fp16":
            return random.standard_normal(count, np.float32).astype(f"f{byte_size(type_, (1,))}").tobytes()
        case "bf16":  # the upper half of fp32
            return (random.standard_normal(count, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        case "i32" | "i64":
            return random.integers(0, 2, count).astype(f"i{byte_size(type_, (1,))}").tobytes()
        case "bool":
            return random.integers(0, 2, count).astype(np.uint8).tobytes()
        case "fp8":  # E4M3 below 2, of either sign: no NaN
            return (random.integers(0, 256, count) & 0xBF).astype(np.uint8).tobytes()
        case _:
            return random.bytes(_SIZE)
