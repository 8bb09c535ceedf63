"""Refuses networks that run on several GPUs: their executions need an NCCL communicator, which none here has."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_multi_device"]


def refuse_multi_device(network: Any, trt: Any) -> None:
    """Raise ValueError for the first layer of the network that exchanges data with other GPUs.

    An engine does not say so of itself: TensorRT refuses to execute it without IExecutionContext.set_communicator.
    """
    for layer in (network.get_layer(index) for index in range(network.num_layers)):
        if layer.type.name == "DIST_COLLECTIVE" or _ranks(layer, trt) > 1:
            raise ValueError(
                f"layer {layer.name!r} ({layer.type.name}) exchanges data with other GPUs by NCCL: engines for several "
                "devices are not supported"
            )


def _ranks(layer: Any, trt: Any) -> int:
    # Attention keeps the number itself, and a layer is handed out as an ILayer: its class is changed to reach it.
    if layer.type.name == "ATTENTION_INPUT":
        layer.__class__ = trt.IAttentionInputLayer
        layer = layer.attention
    ranks: int = getattr(layer, "num_ranks", 1)  # releases without it have one device
    return ranks
