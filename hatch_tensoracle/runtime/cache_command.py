"""The command `hatch-tensoracle cache`: what is saved, whether it is whole, and making room."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Any

from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.runtime.cache import CachedEngine, EngineCache
from hatch_tensoracle.runtime.digests import forget_digests
from hatch_tensoracle.runtime.errors import EngineCacheError

__all__ = ["clear", "info", "list_engines", "prune", "register", "verify"]

_VERSION = 1
"""Of the JSON output."""
_DEFECTS = 1
_SHOWN = 12
"""Digits of an identity; that many tell engines apart, and fewer are taken."""
_UNITS = {"": 1} | {f"{p}{b}": base**n for b, base in (("B", 1000), ("iB", 1024)) for n, p in enumerate("KMGT", 1)}


def register(commands: Any) -> None:
    """Add the command to those of the program."""
    parser = commands.add_parser(
        "cache",
        help="list, verify and remove saved engines",
        description="Saved engines below the user's cache directory. Exit: 0, 1 if an engine is damaged or could not be"
        " removed, 2 usage.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    action = actions.add_parser("list", help="every engine, the one that was used last at the end")
    action.add_argument("--format", choices=("text", "json"), default="text")
    action.set_defaults(run=list_engines)

    action = actions.add_parser("info", help="the conditions that an engine was built under, as JSON")
    action.add_argument("identity", metavar="IDENTITY", help="as `list` shows it")
    action.set_defaults(run=info)

    action = actions.add_parser("verify", help="read engines whole, and compare them with their digests")
    action.add_argument("identities", nargs="*", metavar="IDENTITY", help="default: all")
    action.set_defaults(run=verify)

    action = actions.add_parser("prune", help="remove the engines that were not used for longest")
    action.add_argument("--max-size", type=_size, required=True, help="what may stay, such as 20GiB")
    action.set_defaults(run=prune)

    action = actions.add_parser("clear", help="remove engines; without any named, all, and what is known of weights")
    action.add_argument("identities", nargs="*", metavar="IDENTITY", help="as `list` shows it")
    action.set_defaults(run=clear)


def list_engines(*, format: str) -> int:  # noqa: A002 - the option's name
    """Print every engine, and where they are."""
    cache = EngineCache()
    engines = cache.engines()
    if format == "json":
        report = [_described(engine) for engine in engines]
        print(json.dumps({"version": _VERSION, "directory": str(cache.directory), "engines": report}, indent=2))
        return 0
    rows = [("IDENTITY", "SIZE", "LAST USED", "NAME", "GPU", "TENSORRT"), *map(_row, engines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if engines else ():
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(f"{cache.directory}: {len(engines)} engines, {_spelled(sum(engine.size for engine in engines))}")
    return 0


def info(*, identity: str) -> int:
    """Print what one engine says of itself."""
    (engine,) = _named(EngineCache(), [identity])
    print(json.dumps({"version": _VERSION, **_described(engine)}, indent=2))
    return 0 if engine.header else _DEFECTS


def verify(*, identities: Sequence[str]) -> int:
    """Read engines whole, and print which are damaged."""
    cache, damaged = EngineCache(), 0
    for engine in _named(cache, identities):
        try:
            cache.verify(engine)
        except EngineCacheError as error:
            if engine.path.exists():  # and was not removed meanwhile
                damaged += 1
                print(f"FAIL {error}")
        else:
            print(f"ok   {engine.path}")
    return _DEFECTS if damaged else 0


def prune(*, max_size: int) -> int:
    """Remove the engines that were not used for longest."""
    cache = EngineCache()
    _print_removed(cache.prune(max_size))
    forget_digests(of_missing_files=True)
    left = sum(engine.size for engine in cache.engines())
    print(f"{_spelled(left)} are left")
    return 0 if left <= max_size else _DEFECTS


def clear(*, identities: Sequence[str]) -> int:
    """Remove the named engines, or all there is."""
    cache = EngineCache()
    engines = _named(cache, identities)
    removed = [engine for engine in engines if cache.remove(engine)]
    if not identities:
        removed += cache.prune(0)  # what was opened meanwhile, and what is left of saves that did not end
        forget_digests()
    _print_removed(removed)
    gone = {engine.path for engine in removed}
    left = [engine for engine in engines if engine.path not in gone]
    for engine in left:
        print(f"in use, or not to be removed: {engine.path}")
    return _DEFECTS if left else 0


def _named(cache: EngineCache, identities: Sequence[str]) -> list[CachedEngine]:
    """The engines whose identities begin like these; all if there are none."""
    engines = cache.engines()
    found = {identity: [e for e in engines if e.identity.startswith(identity)] for identity in identities}
    for identity, matches in found.items():
        if len(matches) != 1:
            raise ConfigurationError(
                f"{len(matches)} engines in {cache.directory} have an identity that begins with {identity!r}",
                remedy="`hatch-tensoracle cache list` shows them.",
            )
    return [matches[0] for matches in found.values()] if identities else engines


def _print_removed(engines: Sequence[CachedEngine]) -> None:
    for engine in engines:
        print(f"removed {engine.path}")


def _row(engine: CachedEngine) -> tuple[str, ...]:
    used = dt.datetime.fromtimestamp(engine.last_used_ns / 1e9).astimezone()
    start = (engine.identity[:_SHOWN], _spelled(engine.size), f"{used:%Y-%m-%d %H:%M}")
    if engine.header is None:
        return (*start, "(damaged)", "", "")
    conditions: Any = engine.header.conditions
    name = f"{conditions['name']} {conditions['graph_version']} {conditions['declaration']['precision']}"
    return (*start, name, conditions["gpu"]["name"], " ".join(conditions["tensorrt"].values()))


def _described(engine: CachedEngine) -> dict[str, Any]:
    used = dt.datetime.fromtimestamp(engine.last_used_ns / 1e9, dt.UTC)
    return {
        "identity": engine.identity,
        "path": str(engine.path),
        "size": engine.size,
        "last_used": used.isoformat(timespec="seconds"),
        "header": dataclasses.asdict(engine.header) if engine.header else None,
    }


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 20GiB, 500MB or 1000000")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _spelled(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - the next unit
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
