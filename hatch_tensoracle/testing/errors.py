"""What can go wrong in a test of a plugin, one class a kind."""

from __future__ import annotations

from hatch_tensoracle.errors import TensoracleError

__all__ = ["CudaError", "FakeDriverError", "FormatError", "PluginContractError", "PluginFailedError", "PluginTestError"]


class PluginTestError(TensoracleError):
    """Base of what the fake driver and the harness raise."""


class CudaError(PluginTestError):
    """A call of the CUDA driver API failed."""

    def __init__(self, call: str, code: int, name: str, description: str) -> None:
        super().__init__(f"{call}: {name} ({code}): {description}")
        self.call = call
        """As documented, such as `cuMemAlloc`."""
        self.code = code
        self.name = name
        """Of the result, such as `CUDA_ERROR_OUT_OF_MEMORY`."""
        self._parts = (call, code, name, description)

    def __reduce__(self) -> tuple[type[CudaError], tuple[str, int, str, str]]:
        """Pickle by what it was made from."""
        return type(self), self._parts


class FakeDriverError(PluginTestError):
    """The fake driver cannot be what the process's driver is, or is asked for something it does not know."""


class PluginFailedError(PluginTestError):
    """A plugin's method answered with a failure."""

    def __init__(self, plugin: str, method: str, code: int | None, messages: tuple[str, ...] = ()) -> None:
        answer = "null" if code is None else code
        logged = "".join(f"\n  {message}" for message in messages) or "\n  (it logged nothing)"
        super().__init__(f"{plugin}: {method} returned {answer}{logged}")
        self.plugin = plugin
        self.method = method
        self.code = code
        """What the method returned; None where it returned a null pointer."""
        self.messages = messages
        """What the plugin logged meanwhile."""

    def __reduce__(self) -> tuple[type[PluginFailedError], tuple[str, str, int | None, tuple[str, ...]]]:
        """Pickle by what it was made from."""
        return type(self), (self.plugin, self.method, self.code, self.messages)


class FormatError(PluginTestError):
    """A plugin supports no tensor formats for the data types of its inputs."""


class PluginContractError(PluginTestError):
    """A plugin answered with success, but not with what TensorRT documents."""
