"""Reads the variables TENSORACLE_<OPTION>, which stand in for options.

No setting that pip or another frontend passes on (`--config-settings`) reaches a hook.
"""

from __future__ import annotations

import dataclasses
import shlex
import types
import typing
from collections.abc import Mapping
from typing import Any

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["option_name", "read_overrides", "variable_name"]

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def option_name(field: str) -> str:
    """The option in pyproject.toml of a dataclass's field."""
    return field.replace("_", "-")


def variable_name(option: str) -> str:
    """The variable that stands in for an option."""
    return f"TENSORACLE_{option.upper().replace('-', '_')}"


def read_overrides(kind: type[Any], variables: Mapping[str, str]) -> dict[str, object]:
    """What the variables say of the fields of a dataclass, by option, as TOML would have it; empty ones say nothing.

    Arrays are words as a shell takes them. Raises ConfigurationError naming the variable.
    """
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        option = option_name(field.name)
        if text := variables.get(variable_name(option)):
            try:
                found[option] = _value(hints[field.name], text)
            except ValueError as error:
                raise ConfigurationError(f"Variable {variable_name(option)} {error}") from error
    return found


def _value(hint: Any, text: str) -> object:
    if typing.get_origin(hint) is tuple:
        try:
            return shlex.split(text)
        except ValueError as error:
            raise ValueError(f"must be words as a shell takes them, not {text!r}: {error}") from error
    kinds = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
    if bool in kinds:
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"must be {', '.join(_BOOLEANS)}, not {text!r}")
        return _BOOLEANS[text.lower()]
    if int in kinds:
        try:
            return int(text)
        except ValueError as error:
            raise ValueError(f"must be an integer, not {text!r}") from error
    return text
