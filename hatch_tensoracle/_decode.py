"""Turns parsed JSON or TOML into dataclasses, strictly, saying where a value does not fit."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["DecodeError", "decode", "decode_toml", "shown"]

T = TypeVar("T")

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60

_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false", type(None): "null"}


class DecodeError(ValueError):
    """A value is not of the declared type; `where` is its path, such as `entries[3].cubins[0].size`."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(problem, where)
        self.problem = problem
        self.where = where

    def __str__(self) -> str:
        """Say where, then what."""
        return f"{self.where}: {self.problem}" if self.where else self.problem


def decode(kind: type[T], value: object, where: str = "") -> T:
    """Return `value` as a `kind`: a dataclass, `tuple[X, ...]`, `Mapping[str, X]`, a scalar, or a union of these.

    Arrays become tuples, and a dataclass's field `num_warps` is the key `num_warps` or `num-warps`. Nothing is
    converted: `True` is no integer. A union has at most one array and one dataclass. Raises DecodeError.
    """
    return cast("T", _decode(kind, value, where))


def decode_toml(kind: type[T], path: Path, *, remedy: str, check: Callable[[T], None]) -> T:
    """Read a TOML file as a `kind`, which `check` takes a further look at.

    Raises ConfigurationError, with the remedy for what DecodeError says is wrong.
    """
    import tomllib

    try:
        decoded = decode(kind, tomllib.loads(path.read_text(encoding="utf-8")))
        check(decoded)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}") from error
    except (tomllib.TOMLDecodeError, DecodeError) as error:
        raise ConfigurationError(f"{path}: {error}", remedy=remedy) from error
    return decoded


class _Shape(NamedTuple):
    """What a type is made of, found out once."""

    is_dataclass: bool
    origin: object
    arguments: tuple[Any, ...]
    alternatives: tuple[Any, ...]
    arrays: tuple[Any, ...]
    """Alternatives that are arrays, and those that are dataclasses."""
    tables: tuple[Any, ...]


@functools.cache
def _shape(kind: Any) -> _Shape:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    alternatives = arguments if origin in {typing.Union, types.UnionType} else (kind,)
    return _Shape(
        is_dataclass=dataclasses.is_dataclass(kind),
        origin=origin,
        arguments=arguments,
        alternatives=alternatives,
        arrays=tuple(alternative for alternative in alternatives if typing.get_origin(alternative) is tuple),
        tables=tuple(alternative for alternative in alternatives if dataclasses.is_dataclass(alternative)),
    )


def _decode(kind: Any, value: object, where: str) -> object:
    is_dataclass, origin, arguments, alternatives, arrays, tables = _shape(kind)
    if is_dataclass:
        return _decode_dataclass(cast("type[Any]", kind), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise DecodeError(f"must be an array, not {shown(value)}", where)
        return tuple([_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)])
    if origin is Mapping:
        table = _table(value, where)
        return {key: _decode(arguments[1], item, _join(where, key)) for key, item in table.items()}
    nested = arrays + tables
    if tables and isinstance(value, dict):
        return _decode(tables[0], value, where)
    if nested and (isinstance(value, list) or len(alternatives) == len(nested) + (types.NoneType in alternatives)):
        return None if value is None else _decode(nested[0], value, where)
    if type(value) not in alternatives:
        names = {**_NAMES, **dict.fromkeys(arrays, "an array"), **dict.fromkeys(tables, "a table")}
        expected = " or ".join(names.get(kind, kind.__name__) for kind in alternatives)
        raise DecodeError(f"must be {expected}, not {shown(value)}", where)
    return value


@functools.cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _fields(kind: type[Any]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _decode_dataclass(kind: type[Any], value: object, where: str) -> object:
    table = _table(value, where)
    types_ = _hints(kind)  # type: ignore[arg-type]
    fields = {_spelling(field.name, table): field for field in _fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{name}`' for name in fields)}"
            raise DecodeError(f"is an unknown key; {hint}", _join(where, key))
    values = {}
    for key, field in fields.items():
        if key in table:
            values[field.name] = _decode(types_[field.name], table[key], _join(where, key))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DecodeError("is missing", _join(where, key))
    try:
        return kind(**values)
    except DecodeError as error:
        raise DecodeError(error.problem, _join(where, error.where)) from error


def _spelling(name: str, table: Mapping[str, object]) -> str:
    dashed = name.replace("_", "-")
    return dashed if dashed in table else name


def _table(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise DecodeError(f"must be a table, not {shown(value)}", where)
    return value


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where and key else where or key


def shown(value: object) -> str:
    """A value in a message: no more of it than fits a line, however deep and long it is."""
    return _SHOWN.repr(value)
