"""One plugin object of a library, with what all its uses share: capabilities, failures, destruction."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from hatch_tensoracle.testing import abi
from hatch_tensoracle.testing.errors import PluginContractError, PluginFailedError, PluginTestError
from hatch_tensoracle.testing.library import NativeHarness

__all__ = ["PluginObject", "identity_of"]

_CAPABILITIES = {"core": "PLUGIN_V3ONE_CORE", "build": "PLUGIN_V3ONE_BUILD", "runtime": "PLUGIN_V3ONE_RUNTIME"}


def identity_of(harness: NativeHarness, function: str, address: int) -> tuple[str, str, str]:
    """Name, version and namespace of a creator (`CreatorIdentity`) or of a plugin's core (`CoreIdentity`)."""
    identity = abi.Identity()
    harness.call(function, address, ctypes.byref(identity))
    return identity.name.decode(), identity.version.decode(), (identity.namespace or b"").decode()


class PluginObject:
    """An IPluginV3, which is destroyed by `close`, or with the last reference to this."""

    def __init__(self, harness: NativeHarness, address: int, name: str) -> None:
        self._harness = harness
        self.address = address
        self.name = name
        self.close = weakref.finalize(self, harness.call, "Destroy", address)
        self.close.atexit = False  # the library's own objects may be gone by then
        self._capabilities = {
            capability: self._capability(number, capability) for number, capability in enumerate(_CAPABILITIES)
        }

    def check_alive(self) -> None:
        """Raise PluginTestError if it has been destroyed: its methods would be called on freed memory."""
        if not self.close.alive:
            message = f"{self.name}: this plugin has been destroyed: it was closed, or its PluginHarness has ended"
            raise PluginTestError(message, remedy="Use a plugin inside its harness's `with` block, before close().")

    def identity(self) -> tuple[str, str, str]:
        """Name, version and namespace."""
        return identity_of(self._harness, "CoreIdentity", self._capabilities["core"])

    def ask(self, capability: str, method: str, *arguments: Any) -> Any:
        """Call a method of `core`, `build` or `runtime` and return what it answers."""
        self.check_alive()
        return self._harness.call(method, self._capabilities[capability], *arguments)

    def do(self, capability: str, method: str, *arguments: Any) -> None:
        """Call a method that answers with a status. Raises PluginFailedError."""
        since = self._harness.message_count()
        code = self.ask(capability, method, *arguments)
        if code != 0:
            raise self.failed(method, code, since)

    def get(self, capability: str, method: str, *arguments: Any) -> Any:
        """Call a method that answers with a pointer. Raises PluginFailedError if it is null."""
        since = self._harness.message_count()
        answer = self.ask(capability, method, *arguments)
        if not answer:
            raise self.failed(method, None, since)
        return answer

    def failed(self, method: str, code: int | None, since: int) -> PluginFailedError:
        """The error of a method, with what this thread's calls logged from message `since` on."""
        return PluginFailedError(self.name, method[:1].lower() + method[1:], code, self._harness.own_messages(since))

    def clone(self) -> PluginObject:
        """A clone, as TensorRT makes many."""
        self.check_alive()
        since = self._harness.message_count()
        address = self._harness.call("Clone", self.address)
        if not address:
            raise self.failed("Clone", None, since)
        return PluginObject(self._harness, address, self.name)

    def attach(self) -> PluginObject:
        """The clone that works in an execution context."""
        address = self.get("runtime", "AttachToContext", self._harness.call("ResourceContext"))
        return PluginObject(self._harness, address, self.name)

    def _capability(self, number: int, capability: str) -> int:
        since = self._harness.message_count()
        address = self._harness.call("GetCapabilityInterface", self.address, ctypes.c_int32(number))
        if not address:
            raise self.failed("GetCapabilityInterface", None, since)
        info = abi.InterfaceInfo()
        self._harness.call("InterfaceInfo", address, ctypes.byref(info))
        if info.kind.decode() != _CAPABILITIES[capability]:
            message = f"{self.name}: its {capability} capability is a {info.kind.decode()}"
            raise PluginContractError(message, remedy=f"TensorRT wants a {_CAPABILITIES[capability]}.")
        return int(address)
