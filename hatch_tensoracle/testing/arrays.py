"""Arrays on the host, by bytes."""

from __future__ import annotations

from typing import Any

from hatch_tensoracle.data_types import NUMPY_NAMES
from hatch_tensoracle.testing.tensors import Shape

__all__ = ["from_bytes", "host_array"]

_TYPES = {name: type_ for type_, name in NUMPY_NAMES.items()}
_ML_DTYPES = {"bf16", "fp8"}  # which NumPy has no types for


def host_array(array: Any, type_: str) -> Any:
    """A contiguous NumPy array of exactly that type. Raises TypeError."""
    import numpy as np

    found = np.ascontiguousarray(array).reshape(np.shape(array))  # the former makes scalars of one axis
    if _TYPES.get(found.dtype.name) != type_:
        message = f"an array of {found.dtype.name} is given; the plugin was built for {type_}"
        raise TypeError(message)
    return found


def from_bytes(data: bytes, type_: str, shape: Shape) -> Any:
    """A NumPy array of a tensor's bytes. Types that are neither NumPy's nor ml_dtypes' stay bytes, as uint8."""
    import numpy as np

    if type_ in _ML_DTYPES:
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return np.frombuffer(bytearray(data), getattr(ml_dtypes, NUMPY_NAMES[type_])).reshape(shape)
    if type_ not in NUMPY_NAMES:
        return np.frombuffer(bytearray(data), np.uint8)
    return np.frombuffer(bytearray(data), NUMPY_NAMES[type_]).reshape(shape)
