"""The safetensors format, https://huggingface.co/docs/safetensors: a header in JSON, then the tensors' bytes.

Written here, not by the package of that name, to do it in pieces: with progress, and without a copy of what is not
contiguous in memory. The bytes are those that its version 0.8 writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DATA_TYPES", "LONGEST_HEADER", "RESERVED_NAME", "StoredTensor", "header", "in_order"]

DATA_TYPES = {
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
    "complex64": "C64",
    "float32": "F32",
    "uint32": "U32",
    "int32": "I32",
    "bfloat16": "BF16",
    "float16": "F16",
    "uint16": "U16",
    "int16": "I16",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int8": "I8",
    "uint8": "U8",
    "float4_e2m1fn_x2": "F4",
    "bool": "BOOL",
}
"""PyTorch's names and the format's, in the order of the tensors in a file: so each is aligned to its own size."""
LONGEST_HEADER = 100_000_000
"""Bytes: readers refuse longer ones."""
RESERVED_NAME = "__metadata__"

_RANKS = {name: rank for rank, name in enumerate(DATA_TYPES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """What the header says of a tensor."""

    type: str
    """PyTorch's name of it."""
    shape: tuple[int, ...]
    size: int
    """Bytes."""


def in_order(tensors: Mapping[str, StoredTensor]) -> list[str]:
    """Return the names in the order in which the tensors lie in a file."""
    return sorted(tensors, key=lambda name: (_RANKS[tensors[name].type], name))


def header(tensors: Mapping[str, StoredTensor]) -> bytes:
    """Return what a file with these tensors begins with."""
    entries, end = {}, 0
    for name in in_order(tensors):
        tensor = tensors[name]
        shape = list(tensor.shape)
        if tensor.type == "float4_e2m1fn_x2":  # two in a byte; the format counts each
            shape[-1] *= 2
        start, end = end, end + tensor.size
        entries[name] = {"dtype": DATA_TYPES[tensor.type], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
