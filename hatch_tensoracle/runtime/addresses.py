"""What callers hand over as numbers: addresses, stream handles, shapes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import SupportsIndex

from hatch_tensoracle.runtime.values import checked_integer, checked_sequence, not_by_name

__all__ = [
    "check_places",
    "checked_address",
    "checked_addresses",
    "checked_count",
    "checked_shape",
    "checked_stream",
    "wrong_names",
]

_END = 1 << 64


def checked_addresses(names: Iterable[str], addresses: Mapping[str, SupportsIndex]) -> dict[str, int]:
    """Return one address as int for each of the tensors. Raises TypeError or ValueError by the tensor's name."""
    found = {}
    for name in names:
        try:
            address = addresses[name]
        except KeyError:
            raise wrong_names("addresses", addresses, names) from None
        except TypeError:
            if isinstance(addresses, Mapping):
                raise
            raise not_by_name("addresses", addresses) from None
        # The usual case without a call: this is on the way to every enqueue.
        is_plain = type(address) is int and 0 < address < _END
        found[name] = address if is_plain else checked_address(f"tensor {name!r}", address)
    if len(addresses) != len(found):
        raise wrong_names("addresses", addresses, names)
    return found  # type: ignore[return-value]


def check_places(
    addresses: Mapping[str, int], sizes: Mapping[str, int], aliases: Mapping[str, str], written: Container[str]
) -> None:
    """Raise ValueError for a tensor that is written to, and lies where another does; `sizes` are in bytes.

    `aliases` has the outputs that are written over an input, which must have its address.
    """
    for output, source in aliases.items():
        if addresses.get(output, addresses[source]) != addresses[source]:
            raise ValueError(
                f"output {output!r} is written over input {source!r}: its address must be {addresses[source]:#x}, "
                f"not {addresses[output]:#x}"
            )
    last_end = last_written_end = 0  # of the tensors so far, and of those that are written to
    last = last_written = ""
    for begin, name in sorted([(address, name) for name, address in addresses.items()]):
        if not sizes[name] or name in aliases:
            continue
        end, is_written = begin + sizes[name], name in written
        if begin < (last_end if is_written else last_written_end):
            other = last if is_written else last_written
            raise ValueError(
                f"tensors {other!r} and {name!r} overlap, {sizes[other]} bytes at {addresses[other]:#x} and "
                f"{sizes[name]} at {begin:#x}, and not both are only read: give every output memory of its own"
            )
        if end > last_end:
            last_end, last = end, name
        if is_written and end > last_written_end:
            last_written_end, last_written = end, name


def checked_address(what: str, address: object) -> int:
    """Return an address as int. Raises TypeError or ValueError by what it is of."""
    found = checked_count(f"the address of {what}", address)
    if not found:
        raise ValueError(f"the address of {what} is 0, must be positive")
    return found


def checked_count(what: str, count: object) -> int:
    """Return an unsigned number of 64 bits as int. Raises TypeError or ValueError."""
    found = checked_integer(what, count)
    if not 0 <= found < _END:
        raise ValueError(f"{what} is {found}, must be from 0 to 2**64 - 1")
    return found


def checked_stream(stream: object) -> int:
    """Return a stream's handle as int; 0 is the default stream. Raises TypeError or ValueError."""
    return checked_count("the stream's handle", stream)


def checked_shape(name: str, shape: object) -> tuple[int, ...]:
    """Return an input's shape, or a shape tensor's contents, as a tuple of int. Raises TypeError."""
    extents = checked_sequence(f"the shape of input {name!r}", shape)
    return tuple(checked_integer(f"the shape of input {name!r}, {shape},", extent) for extent in extents)


def wrong_names(what: str, given: Mapping[str, object], expected: Iterable[str]) -> ValueError:
    """Return the error for a mapping that has not exactly the names expected."""
    known = list(expected)
    missing = [name for name in known if name not in given]
    extra = [name for name in given if name not in known]
    parts = [
        f"{word} {', '.join(map(repr, names))}"
        for word, names in (("missing", missing), ("unexpected", extra))
        if names
    ]
    return ValueError(f"{what}: {'; '.join(parts)}; expected are {', '.join(map(repr, known)) or 'none'}")
