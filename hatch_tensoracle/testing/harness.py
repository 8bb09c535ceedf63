"""Does with a plugin library what TensorRT does: finds its creators, creates plugins, builds and runs them."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from hatch_tensoracle.testing import abi
from hatch_tensoracle.testing.errors import PluginContractError, PluginFailedError, PluginTestError
from hatch_tensoracle.testing.fields import Field, FieldDeclaration, FieldSet, fields_of, read_fields
from hatch_tensoracle.testing.library import Message, NativeHarness, PluginLibrary
from hatch_tensoracle.testing.plugin import Plugin
from hatch_tensoracle.testing.plugin_object import PluginObject, identity_of

__all__ = ["Creator", "PluginHarness"]

_CREATOR_KIND = "PLUGIN CREATOR_V3ONE"
_LAYER = b"harness"  # the name of the network's layer, which createPlugin is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Creator:
    """A creator of a library."""

    name: str
    version: str
    namespace: str
    fields: tuple[FieldDeclaration, ...]
    address: int = field(repr=False)


class PluginHarness:
    """Plays TensorRT for one plugin library. As a context manager it destroys the plugins that it created.

    `release` is the one to play, as getInferLibVersion numbers it: 100300 is TensorRT 10.3.0, 10500 TensorRT-RTX 1.5.0.
    Messages call the library `label`, or by its path: one that was unpacked has the name of the wheel that it is in.
    """

    def __init__(self, library: str | os.PathLike[str], *, release: int = 100300, label: str = "") -> None:
        self._harness = NativeHarness()
        self._first_message = self._harness.message_count()
        self._library = PluginLibrary(Path(library), self._harness, release, label or str(library))
        self.creators = tuple(self._creator(address) for address in self._library.creators())
        """The library's creators, in its order."""
        self._plugins: list[Plugin] = []
        self._has_ended = False
        if not self.creators:
            logged = "; ".join(message.text for message in self.messages) or "it logged nothing"
            raise PluginContractError(f"{self._library.label}: getCreators found no creator: {logged}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended = True
        for plugin in self._plugins:
            plugin.close()
        self._plugins.clear()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was logged in this process since the harness was made."""
        return self._harness.messages(self._first_message)

    def creator(self, name: str, *, version: str | None = None, namespace: str = "") -> Creator:
        """The creator of that name; of any version if none is given. Raises LookupError."""
        for creator in self.creators:
            if (creator.name, creator.namespace) == (name, namespace) and version in {None, creator.version}:
                return creator
        wanted = f"{name!r} of version {version or 'any'} and namespace {namespace!r}"
        known = ", ".join(
            f"{known.name!r} of version {known.version} and namespace {known.namespace!r}" for known in self.creators
        )
        message = f"{self._library.label} has no creator {wanted}; it has {known}"
        raise LookupError(message)

    def create(
        self,
        name: str,
        fields: Mapping[str, Any] | Sequence[Field] = (),
        *,
        version: str | None = None,
        namespace: str = "",
    ) -> Plugin:
        """Create a plugin for a network from the values of its fields, or from Field records as they stand.

        Raises PluginFailedError, with what the plugin logged, if it refuses them.
        """
        if self._has_ended:
            message = f"{name}: the PluginHarness of {self._library.label} has ended, and would not destroy it"
            raise PluginTestError(message, remedy="Create plugins inside the harness's `with` block.")
        creator = self.creator(name, version=version, namespace=namespace)
        given = fields_of(fields, creator.fields)
        plugin = Plugin(self._harness, functools.partial(self._make, creator), given)
        self._plugins.append(plugin)
        return plugin

    def _make(self, creator: Creator, fields: Sequence[Field], phase: int) -> PluginObject:
        since = self._harness.message_count()
        given = FieldSet(fields)
        address = self._harness.call(
            "CreatePlugin", creator.address, _LAYER, ctypes.byref(given.collection), ctypes.c_int32(phase)
        )
        if not address:
            raise PluginFailedError(creator.name, "createPlugin", None, self._harness.own_messages(since))
        return PluginObject(self._harness, address, creator.name)

    def _creator(self, address: int) -> Creator:
        info = abi.InterfaceInfo()
        self._harness.call("InterfaceInfo", address, ctypes.byref(info))
        if info.kind.decode() != _CREATOR_KIND:
            raise PluginContractError(f"{self._library.label}: a creator is a {info.kind.decode()}, no {_CREATOR_KIND}")
        name, version, namespace = identity_of(self._harness, "CreatorIdentity", address)
        since = self._harness.message_count()
        names = self._harness.call("GetFieldNames", address)
        if not names:
            raise PluginFailedError(name, "getFieldNames", None, self._harness.own_messages(since))
        declared = tuple(
            FieldDeclaration(name=each.name, type=each.type, length=each.length) for each in read_fields(names.contents)
        )
        return Creator(name=name, version=version, namespace=namespace, fields=declared, address=address)
