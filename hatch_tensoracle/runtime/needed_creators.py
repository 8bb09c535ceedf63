"""Which plugin creators a network uses, and which of those a process lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hatch_tensoracle.runtime.plugin_creators import CreatorKey, registered_creators

__all__ = ["missing_creators", "used_creators"]


def used_creators(network: Any, trt: Any) -> tuple[CreatorKey, ...]:
    """Return the creators of the network's plugins, each once: those that its plan asks the registry for."""
    layers = (network.get_layer(index) for index in range(network.num_layers))
    found = (_creator(layer, trt) for layer in layers)
    return tuple(dict.fromkeys(creator for creator in found if creator is not None))


def missing_creators(needed: Sequence[CreatorKey], trt: Any) -> list[CreatorKey]:
    """Return those that no library has registered in this process."""
    known = registered_creators(trt.get_plugin_registry())
    return [creator for creator in needed if creator not in known]


def _creator(layer: Any, trt: Any) -> CreatorKey | None:
    # The binding hands out every layer as an ILayer, of which the class is to be changed to reach what it adds.
    if layer.type == trt.LayerType.PLUGIN_V3:
        layer.__class__ = trt.IPluginV3Layer
        core = layer.plugin.get_capability_interface(trt.PluginCapabilityType.CORE)
        return CreatorKey(core.plugin_name, core.plugin_version, core.plugin_namespace)
    if layer.type == trt.LayerType.PLUGIN_V2:
        layer.__class__ = trt.IPluginV2Layer
        plugin = layer.plugin
        return CreatorKey(plugin.plugin_type, plugin.plugin_version, plugin.plugin_namespace)
    return None
