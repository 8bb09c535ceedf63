"""What callers hand over as numbers and words, checked by what it is for."""

from __future__ import annotations

import operator
import os
from typing import Any, get_args

__all__ = ["check_choice", "checked_integer", "checked_integers", "checked_path", "checked_sequence", "not_by_name"]


def check_choice(what: str, value: object, choices: Any) -> None:
    """Raise ValueError for what is none of the words of a Literal."""
    if value not in get_args(choices):
        raise ValueError(f"{what} must be one of {', '.join(get_args(choices))}, not {value!r}")


def checked_path(what: str, path: object) -> str:
    """Return a path as text. Raises TypeError."""
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"{what} must be a path, not {path!r}")
    return os.fsdecode(path)


def not_by_name(what: str, given: object) -> TypeError:
    """Return the error for what should be a mapping by tensor name. Callers find out when they use it as one."""
    return TypeError(f"{what} must be a mapping by tensor name, not {given!r}")


def checked_integers(what: str, values: object) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple of int. Raises TypeError."""
    return tuple(checked_integer(what, value) for value in checked_sequence(what, values))


def checked_sequence(what: str, values: Any) -> tuple[Any, ...]:
    """Return what should be a sequence of integers as a tuple, its elements unseen. Raises TypeError."""
    if not isinstance(values, str):
        try:
            return tuple(values)  # an array without axes can be iterated over by its class alone
        except TypeError:
            pass
    raise TypeError(f"{what} must be a sequence of integers, not {values!r}")


def checked_integer(what: str, value: Any) -> int:
    """Return an integer as int. Raises TypeError."""
    # NumPy's integers are integers; True, which has an index too, and 1.0 are none.
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} must be an integer, not {value!r}")
