"""Reads what PTX text says of itself: the directives of the PTX ISA that stand outside function bodies."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["PtxEntry", "PtxError", "PtxImage", "read_ptx"]

# Nothing here goes back over what it has read, so that hostile text costs no more time than any other.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_HEADER = re.compile(
    r"\s*+\.version\s++(\d{1,3}\.\d{1,3})\s++\.target\s++(\w++(?:[ ]*+,[ ]*+\w++)*+)\s++\.address_size\s++64\s"
)
_ENTRY = re.compile(r"\s++([A-Za-z_$%][\w$]*+)\s*+(?:\(([^()]*+)\))?([^()]*+)")
_PARAMETER = re.compile(
    r"\s*+\.param\s++(?:\.align\s++\d++\s++)?+\.[busf](8|16|32|64)\s++"
    r"(?:\.ptr\s++(?:\.(?!align\s)\w++\s++)?+(?:\.align\s++\d++\s++)?+)?+[\w$%]++(?:\[(\d{1,9})\])?+\s*+"
)
_THREADS = re.compile(r"\.reqntid\s++(\d{1,9})(?:\s*+,\s*+(\d{1,9}))?+(?:\s*+,\s*+(\d{1,9}))?+\s")
_SHARED = re.compile(r"(?<!\.extern)\s\.shared\s++\.(?:align|b8|b16|b32|b64)\s")
_MOST_ENTRIES = 100
"""A module of ours has one."""


class PtxError(Exception):
    """The bytes are no PTX text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxEntry:
    """One entry function."""

    symbol: str
    parameters: tuple[int, ...]
    """Size in bytes of each parameter, in order."""
    threads: int
    """Per block, as the function requires them; 0 if it leaves them open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxImage:
    """What a PTX module says of itself."""

    version: str
    """Of the PTX ISA: `8.0`."""
    target: str
    """Such as `sm_89`, with what further stands in the directive."""
    entries: tuple[PtxEntry, ...]
    has_static_shared: bool
    """Whether it declares shared memory of fixed size."""


def read_ptx(data: bytes) -> PtxImage:
    """Read PTX text of 64-bit addresses. Raises PtxError."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        message = f"is not text: byte {error.start} is {data[error.start]:#04x}"
        raise PtxError(message) from error
    if "\0" in text:
        message = f"is not text: byte {text.index(chr(0))} is 0x00"
        raise PtxError(message)
    code = _COMMENT.sub("", text)
    header = _HEADER.match(code)
    if header is None:
        message = "does not begin with .version, .target and .address_size 64"
        raise PtxError(message)
    opened, closed = code.count("{"), code.count("}")
    if opened != closed:
        message = f"opens {opened} braces and closes {closed}: a part is missing"
        raise PtxError(message)
    if (count := code.count(".entry")) > _MOST_ENTRIES:
        message = f"has {count} entry functions"
        raise PtxError(message)
    heads = [head for head in re.split("[{}]", code) if ".entry" in head]
    return PtxImage(
        version=header[1],
        target=header[2],
        entries=tuple(map(_entry, heads)),
        has_static_shared=_SHARED.search(code) is not None,
    )


def _entry(head: str) -> PtxEntry:
    """Read what stands before the body of a function."""
    found = _ENTRY.fullmatch(head.rpartition(".entry")[2])
    if found is None or head.count(".entry") > 1:
        message = "has an entry function without name, parameters and body"
        raise PtxError(message)
    symbol, parameters, directives = found.groups(default="")
    threads = _THREADS.search(directives)
    return PtxEntry(
        symbol=symbol,
        parameters=tuple(_size(parameter) for parameter in parameters.split(",") if parameter.strip()),
        threads=math.prod(int(extent or 1) for extent in threads.groups()) if threads else 0,
    )


def _size(parameter: str) -> int:
    found = _PARAMETER.fullmatch(parameter)
    if found is None:
        message = f"has a parameter of unknown form: {' '.join(parameter.split())[:80]}"
        raise PtxError(message)
    return int(found[1]) // 8 * int(found[2] or 1)
