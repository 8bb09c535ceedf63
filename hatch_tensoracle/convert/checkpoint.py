"""Reads PyTorch checkpoints as names and tensors, without running what they hold."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatch_tensoracle.convert.errors import CheckpointError
from hatch_tensoracle.convert.safetensors_file import DATA_TYPES, LONGEST_HEADER, RESERVED_NAME

__all__ = ["read_checkpoint"]

_DEEPEST = 100
"""Levels of mappings. One that holds itself has no end."""
_LEAST_ENTRY = 50
"""Bytes of a header's entry without its name."""
_INT64 = 64
_LINE = 100
"""Characters of a name that are shown."""
_DAMAGED_REMEDY = "It is empty, cut off, damaged, or not what torch.save writes: save or copy it again."
_REMEDY = "Save the mapping of names to tensors alone, such as model.state_dict()."


def read_checkpoint(torch: Any, file: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint by name, those of inner mappings as outer.inner. They may be mapped from it.

    Raises CheckpointError, with every entry that a safetensors file cannot hold, and OSError.
    """
    content = _load(torch, file)
    if not isinstance(content, Mapping):
        cause = f"holds a {type(content).__name__}, not a mapping of names to tensors"
        raise CheckpointError(cause, file=str(file), remedy=_REMEDY)
    tensors: dict[str, Any] = {}
    wrong: list[str] = []
    length = 0
    for name, value in _flat(content, file):
        length += len(name) + _LEAST_ENTRY
        if length > LONGEST_HEADER:
            cause = f"has names of more than the {LONGEST_HEADER} bytes that are allowed for names and shapes"
            raise CheckpointError(cause, file=str(file))
        if defect := _defect(torch, name, value, tensors):
            wrong.append(f"{_shown(name)} {defect}")
        else:
            tensors[name] = value.detach()
    if wrong:
        raise CheckpointError("holds what is not converted", file=str(file), entries=tuple(wrong), remedy=_REMEDY)
    if not tensors:
        raise CheckpointError("holds no tensor", file=str(file), remedy=_REMEDY)
    return tensors


def _load(torch: Any, file: Path) -> Any:
    try:
        return torch.load(str(file), map_location="cpu", weights_only=True, mmap=_can_be_mapped(file))
    except (OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(_refusal(error), file=str(file), remedy=_REMEDY) from error
    except Exception as error:  # a damaged file leads to any of them
        text = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}".rstrip(": ")
        cause = f"torch cannot read it as a checkpoint: {text}"
        raise CheckpointError(cause, file=str(file), remedy=_DAMAGED_REMEDY) from error


def _can_be_mapped(file: Path) -> bool:
    """Whether it is of the format since PyTorch 1.6, as it is saved: packed anew, the bytes may be compressed ones."""
    with file.open("rb") as stream:
        if stream.read(4) != b"PK\x03\x04":  # what torch goes by, too
            return False
        with zipfile.ZipFile(stream) as archive:
            return all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())


def _refusal(error: pickle.UnpicklingError) -> str:
    # What else torch says is how to load such a file all the same.
    text = str(error)
    if found := re.search(r"GLOBAL (\S+)", text):
        return f"holds an object of {found[1]}, and objects are not loaded, since they can run code"
    reason = text.partition("WeightsUnpickler error: ")[2] or text
    return f"is not loaded by torch, which reads weights only: {reason.strip().partition(chr(10))[0][:300]}"


def _flat(content: Mapping[Any, Any], file: Path, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield names and what is no mapping. Of a key that is no string, the name says so, and the value is the key."""
    if depth > _DEEPEST:
        cause = f"has mappings in one another, more than {_DEEPEST} deep or without end"
        raise CheckpointError(cause, file=str(file), entries=(f"{_shown(prefix)} ...",), remedy=_REMEDY)
    for key, value in content.items():
        if not isinstance(key, str):
            shown = key if isinstance(key, int) and key.bit_length() < _INT64 else "..."
            yield f"{prefix}[{shown}]", _Key(type(key).__name__)
        elif isinstance(value, Mapping):
            yield from _flat(value, file, f"{prefix}{key}.", depth + 1)
        else:
            yield prefix + key, value


class _Key:
    """Stands for the value of a key that is no string."""

    def __init__(self, type_: str) -> None:
        self.type = type_


def _defect(torch: Any, name: str, value: Any, tensors: Mapping[str, Any]) -> str | None:
    """Return why this cannot be one more of the tensors."""
    if isinstance(value, _Key):
        return f"is a key of type {value.type}, not str"
    if not isinstance(value, torch.Tensor):
        return f"is of type {type(value).__name__}, not a tensor"
    if defect := _tensor_defect(torch, value):
        return defect
    if name in tensors:
        return "is the name of two tensors, once the keys are joined with '.'"
    if name == RESERVED_NAME:
        return "is a name that safetensors files use themselves"
    if not _is_unicode(name):
        return "is a name with half a character (a lone surrogate), which no file can hold"
    return None


def _tensor_defect(torch: Any, tensor: Any) -> str | None:
    """Return why a safetensors file cannot hold this tensor."""
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        return f"is a tensor of a type of its own, {type(tensor).__name__}"
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
        return f"is a {kind} tensor, not a dense one"
    if tensor.device.type != "cpu":
        return f"is a tensor without values, on device {tensor.device}"
    name = _type_name(tensor)
    if name not in DATA_TYPES:
        return f"is a tensor of {name}, which safetensors files have not"
    if name == "float4_e2m1fn_x2" and not tensor.shape:
        return f"is a tensor of {name}, which are pairs, without an axis to count them on"
    return None


def _type_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    """Return a name that cannot upset a terminal, and is no longer than a line."""
    return ascii(name if len(name) <= _LINE else f"{name[:_LINE]}...")
