"""Networks for several GPUs are refused, with the real TensorRT-RTX; each in a process of its own."""

from __future__ import annotations

import sys

import pytest
from helpers.tools import run

NETWORK = """
import tensorrt_rtx as trt
from hatch_tensoracle.runtime.multi_device import refuse_multi_device
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
x = network.add_input("x", trt.float16, (1, 2, 4, 16))
{layers}
try:
    refuse_multi_device(network, trt)
except ValueError as error:
    print(error)
else:
    print("accepted")
"""
SUM = "network.add_dist_collective(x, trt.CollectiveOperation.ALL_REDUCE, trt.ReduceOperation.SUM, -1, [])"
ATTENTION = "attention = network.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)"


@pytest.mark.parametrize(
    ("layers", "answer"),
    [
        (SUM, "layer '(Unnamed Layer* 0) [DistCollective]' (DIST_COLLECTIVE) exchanges data with other GPUs by NCCL"),
        (f"{ATTENTION}; attention.num_ranks = 2", "(ATTENTION_INPUT) exchanges data with other GPUs by NCCL"),
        (ATTENTION, "accepted"),
        ("network.add_identity(x)", "accepted"),
    ],
    ids=["collective", "attention on two GPUs", "attention", "one layer"],
)
def test_layers_that_need_other_gpus_are_refused_by_name(layers: str, answer: str) -> None:
    assert answer in run(sys.executable, "-c", NETWORK.format(layers=layers))
