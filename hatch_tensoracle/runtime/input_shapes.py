"""The shapes that an execution context has, and the optimization profile that they fit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

from hatch_tensoracle.runtime.addresses import checked_shape, wrong_names
from hatch_tensoracle.runtime.engine_tensors import EngineTensor, fits, read_profiles
from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.values import checked_integer, not_by_name

__all__ = ["InputShapes"]

Shape = tuple[int, ...]
Refusal = Callable[[str], ExecutionError]
"""Makes the error for something that TensorRT refused, with what it logged."""


class InputShapes:
    """All inputs together: either TensorRT has a shape, or the contents, of every one, or none counts."""

    def __init__(self, engine: Any, tensors: Mapping[str, EngineTensor]) -> None:
        self._tensors = tensors
        self._profiles = read_profiles(engine, tensors)
        self._host_memory = {t.name: t.host_memory() for t in tensors.values() if t.is_shape_tensor}
        self._fixed = {
            name: range_.min
            for name, range_ in self._profiles[0].items()
            if range_.min == range_.max and all(profile[name] == range_ for profile in self._profiles)
        }
        self.ranged = tuple(name for name in self._profiles[0] if name not in self._fixed)
        """Inputs that must be told."""
        self.profile = 0
        """TensorRT's own choice for a new context."""
        self.current: Mapping[str, Shape] | None = None
        """Shapes, and contents of shape tensors, by input; None until TensorRT has them all."""
        self.outputs: Mapping[str, Shape] = {}
        """Shapes of outputs, with -1 where the data decide."""

    def optimum(self, profile: int) -> dict[str, Shape]:
        """Return what TensorRT tuned a profile for: the inputs that must be told. Raises ValueError."""
        profile = self._checked_profile(profile)
        return {name: self._profiles[profile][name].opt for name in self.ranged}

    def least_sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Return, by tensor, how many bytes it has at least; of those whose shapes are known."""
        shapes = {**(self.current or {}), **self.outputs}
        return {name: self._tensors[name].least_size(shapes[name]) for name in names}

    def contents(self, name: str) -> tuple[int, ...]:
        """Return the present contents of a shape tensor."""
        return tuple(self._host_memory[name])

    def choose(
        self, shapes: Mapping[str, Sequence[SupportsIndex]], profile: int | None
    ) -> tuple[Mapping[str, Shape], int]:
        """Return the shapes of all inputs and the profile for them. Raises TypeError or ValueError by the input."""
        try:
            names = shapes.keys()
        except AttributeError:
            raise not_by_name("shapes", shapes) from None
        unknown = [name for name in names if name not in self.ranged and name not in self._fixed]
        if unknown or any(name not in shapes for name in self.ranged):
            raise wrong_names("shapes", {name: 0 for name in shapes if name not in self._fixed}, self.ranged)
        wanted = self._fixed | {name: checked_shape(name, shape) for name, shape in shapes.items()}
        if profile is not None:
            profile = self._checked_profile(profile)
        allowed = (profile,) if profile is not None else (self.profile, *range(len(self._profiles)))
        chosen = next((index for index in allowed if fits(self._profiles[index], wanted)), None)
        if chosen is None:
            raise ValueError(self._misfit(wanted, profile))
        return wanted, chosen

    def forget(self) -> None:
        """Begin anew, for another context."""
        self.current, self.profile = None, 0

    def apply(self, context: Any, wanted: Mapping[str, Shape], profile: int, stream: int, refused: Refusal) -> None:
        """Give them to TensorRT. After an ExecutionError there are none."""
        self.current = None
        if profile != self.profile:
            if not context.set_optimization_profile_async(profile, stream):
                raise refused(f"profile {profile}")
            self.profile = profile
        for name, memory in self._host_memory.items():
            if not context.set_tensor_address(name, ctypes.addressof(memory)):
                raise refused(f"the memory of shape tensor {name!r}")
        for name, shape in wanted.items():
            tensor = self._tensors[name]
            if tensor.is_shape_tensor:
                self._host_memory[name][:] = list(shape)
            elif -1 in tensor.shape and not context.set_input_shape(name, shape):
                raise refused(f"shape {shape} of input {name!r}")
        try:
            missing = context.infer_shapes()
        except RuntimeError as error:
            raise refused(f"to infer shapes from {dict(wanted)}: {error}") from error
        if missing:
            raise refused(f"to infer shapes without those of {', '.join(missing)}")
        self.outputs = {
            name: tuple(context.get_tensor_shape(name)) for name, tensor in self._tensors.items() if not tensor.is_input
        }
        self.current = wanted

    def _checked_profile(self, profile: SupportsIndex) -> int:
        index = checked_integer("the profile", profile)
        if index not in range(len(self._profiles)):
            raise ValueError(f"there is no profile {index}: the engine has {len(self._profiles)}")
        return index

    def _misfit(self, wanted: Mapping[str, Shape], profile: int | None) -> str:
        indexes = range(len(self._profiles)) if profile is None else (profile,)
        lines = [
            f"input {name!r} is {wanted[name]}, profile {index} takes {self._profiles[index][name]}"
            for index in indexes
            for name in wanted
            if wanted[name] not in self._profiles[index][name]
        ]
        return "; ".join(lines)
