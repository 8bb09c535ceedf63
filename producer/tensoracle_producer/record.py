"""A kernel as data: source text and everything it refers to, apart from the file it stands in.

A live `triton.jit` function belongs to its process. The record made of it here can be pickled, hashed and compiled
anywhere: worker processes get it, and digests are taken over it. Source text is normalised (no comments, no
decorators, no docstring, its own line numbers), so what does not change the kernel does not change the record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Union

__all__ = [
    "Constexpr",
    "Dtype",
    "Function",
    "Import",
    "KernelRecord",
    "Literal",
    "Namespace",
    "Reference",
    "Sequence",
    "Value",
]


@dataclass(frozen=True, slots=True)
class Literal:
    """None, a bool, a number, a str or bytes."""

    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple or list."""

    items: tuple[Value, ...]
    is_tuple: bool


@dataclass(frozen=True, slots=True)
class Constexpr:
    """A tl.constexpr."""

    value: Value


@dataclass(frozen=True, slots=True)
class Dtype:
    """A Triton dtype."""

    name: str


@dataclass(frozen=True, slots=True)
class Import:
    """A module of Triton or the standard library (`name` empty), or something inside one."""

    module: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another function of the record."""

    key: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """Any other object, of which only these attributes are used: a module of the author's, an enumeration."""

    items: tuple[tuple[str, Value], ...]


Value = Union[Literal, Sequence, Constexpr, Dtype, Import, Reference, Namespace]  # noqa: UP007 - recursive


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function, normalised."""

    module: str
    qualname: str
    source: str
    is_constexpr: bool
    """A `constexpr_function`, which runs while kernels are compiled, rather than a `jit` function."""
    noinline: bool
    names: tuple[tuple[str, Value], ...]
    """What the source refers to outside itself."""
    file: str = field(repr=False, compare=False)
    """Base name of the author's file, for messages."""
    lines: tuple[tuple[int, int], ...] = field(repr=False, compare=False)
    """Line of the normalised source -> line of the author's file, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """A kernel with its helpers; the first function is the kernel."""

    functions: tuple[tuple[str, Function], ...]
    constants: tuple[tuple[str, Value], ...]

    def digest(self, *more: object) -> str:
        """SHA-256 over all that determines the kernel, and over `more`."""
        return hashlib.sha256(repr((self, *more)).encode()).hexdigest()

    def locate(self, source: str, line: int) -> str:
        """`file:line` in the author's file of a line of a function's normalised source."""
        for _, function in self.functions:
            if function.source == source:
                return f"{function.file}:{dict(function.lines).get(line, '?')}"
        return f"line {line}"
