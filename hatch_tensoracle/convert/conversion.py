"""Writes the tensors of a PyTorch checkpoint to a safetensors file."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hatch_tensoracle._blocks import blocks
from hatch_tensoracle._files import whole_file
from hatch_tensoracle.convert.checkpoint import read_checkpoint
from hatch_tensoracle.convert.errors import CheckpointError
from hatch_tensoracle.convert.safetensors_file import LONGEST_HEADER, StoredTensor, header, in_order

__all__ = ["pth_to_safetensors"]

_PIECE = 1 << 23
"""Bytes that are written at once."""
_OLDEST = (2, 6)
"""Older ones can be made to run code by a checkpoint with weights_only, too: CVE-2025-32434."""


def pth_to_safetensors(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write every tensor of a checkpoint, a mapping of names to tensors or to such mappings, to a safetensors file.

    Names of inner mappings are joined with '.'. Data types, shapes and values stay, be a tensor shared, strided,
    without axes or empty. The checkpoint is loaded on the CPU and its objects are never run. The destination is
    replaced at once when all is written, and left as it is if anything fails. `progress` is called with the bytes of
    tensors that are written and those that there are.

    Raises CheckpointError, a ValueError, if the checkpoint cannot be read, if it holds what a safetensors file cannot,
    each of which is listed, or if names are the same once they are joined; ImportError without torch 2.6 or newer; and
    OSError.
    """
    source, destination = Path(source), Path(destination)
    _check_places(source, destination)
    torch = _torch()
    tensors = read_checkpoint(torch, source)
    stored = {
        name: StoredTensor(type=str(tensor.dtype).removeprefix("torch."), shape=tuple(tensor.shape), size=tensor.nbytes)
        for name, tensor in tensors.items()
    }
    begin, size = header(stored), sum(tensor.size for tensor in stored.values())
    if len(begin) > LONGEST_HEADER:
        raise CheckpointError(
            f"has names and shapes of {len(begin)} bytes; {LONGEST_HEADER} are allowed", file=str(source)
        )
    _check_space(destination, len(begin) + size)
    done = 0
    with whole_file(destination) as file:
        file.write(begin)
        for piece in _pieces(torch, tensors, in_order(stored)):
            file.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, size)


def _torch() -> Any:
    needed = f"torch {'.'.join(map(str, _OLDEST))} or newer: pip install 'hatch-tensoracle[convert]'"
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"converting a checkpoint needs {needed}") from error
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _OLDEST:
        raise ImportError(f"torch is {torch.__version__}; converting a checkpoint needs {needed}")
    return torch


def _check_places(source: Path, destination: Path) -> None:
    source.stat()  # raises FileNotFoundError
    if not source.is_file():
        raise CheckpointError("is not a file", file=str(source))
    if not destination.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "there is no such directory to write to", str(destination.parent))
    if destination.exists():
        if not destination.is_file():
            raise FileExistsError(errno.EEXIST, "is not a file and is not replaced", str(destination))
        if destination.samefile(source):
            raise CheckpointError(f"is the same file as the destination, {destination}", file=str(source))


def _check_space(destination: Path, size: int) -> None:
    free = shutil.disk_usage(destination.parent).free
    if size > free:
        message = f"the tensors take {size} bytes, {free} are free"
        raise OSError(errno.ENOSPC, message, str(destination))


def _pieces(torch: Any, tensors: Mapping[str, Any], order: list[str]) -> Iterator[memoryview]:
    """Yield the bytes of the tensors one after the other, copied only where they are not contiguous."""
    # Of each size a type that any tensor can be viewed and copied as.
    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    for name in order:
        tensor = tensors[name].resolve_conj().resolve_neg()
        bits = tensor.view(plain[tensor.element_size()])
        for index in blocks(tuple(bits.shape), _PIECE // bits.element_size()):
            yield memoryview(bits[index].contiguous().reshape(-1).view(torch.uint8).numpy())
