"""Makes a live `triton.jit` function of a record, in any process."""

from __future__ import annotations

import ast
import importlib
import linecache
import types
from collections.abc import Iterator, Mapping
from typing import Any

from tensoracle_producer.record import (
    Constexpr,
    Dtype,
    Function,
    Import,
    KernelRecord,
    Literal,
    Namespace,
    Reference,
    Sequence,
    Value,
)

__all__ = ["rebuild"]


def rebuild(record: KernelRecord) -> tuple[Any, dict[str, Any]]:
    """Make a `triton.jit` function of the record, and the constants that it is compiled with."""
    built: dict[str, Any] = {}
    table = dict(record.functions)
    for key in table:
        _build(key, table, built)
    for key, function in table.items():  # now that all exist, those that refer to each other in a circle
        built[key].fn.__globals__.update({name: _decoded(value, built) for name, value in function.names})
    kernel = record.functions[0][0]
    return built[kernel], {name: _decoded(value, built) for name, value in record.constants}


def _build(key: str, table: Mapping[str, Function], built: dict[str, Any]) -> None:
    if key in built:
        return
    built[key] = None  # under construction
    function = table[key]
    for _, value in function.names:
        for reference in _references(value):
            _build(reference, table, built)
    scope = {"__name__": function.module, **{name: _decoded(value, built) for name, value in function.names}}
    (definition,) = ast.parse(function.source).body
    assert isinstance(definition, ast.FunctionDef)  # noqa: S101 - the source is one def
    file = f"{function.module}.{function.qualname}"
    # Triton asks `inspect` for the source, which looks here for what is no file.
    linecache.cache[file] = (len(function.source), None, function.source.splitlines(keepends=True), file)
    exec(compile(function.source, file, "exec"), scope)  # noqa: S102 - the author's own kernel
    python_function = scope[definition.name]
    assert isinstance(python_function, types.FunctionType)  # noqa: S101 - what a def makes
    # Triton tells functions apart by this name: two closures of one factory would share the code of the first.
    python_function.__qualname__ = key.partition(":")[2]
    built[key] = _decorated(python_function, function)


def _decorated(python_function: types.FunctionType, function: Function) -> Any:
    import triton
    from triton.runtime.jit import constexpr_function

    if function.is_constexpr:
        return constexpr_function(python_function)
    return triton.jit(python_function, noinline=function.noinline)


def _references(value: Value) -> Iterator[str]:
    if isinstance(value, Reference):
        yield value.key
    elif isinstance(value, Sequence):
        for item in value.items:
            yield from _references(item)
    elif isinstance(value, Namespace):
        for _, item in value.items:
            yield from _references(item)
    elif isinstance(value, Constexpr):
        yield from _references(value.value)


def _decoded(value: Value, built: Mapping[str, Any]) -> Any:
    """Return what the value stands for, given the functions built so far."""
    from triton.language.core import constexpr, dtype

    match value:
        case Literal(literal):
            return literal
        case Sequence(items, is_tuple):
            decoded = [_decoded(item, built) for item in items]
            return tuple(decoded) if is_tuple else decoded
        case Constexpr(inner):
            return constexpr(_decoded(inner, built))
        case Dtype(name):
            return dtype(name)
        case Import(module, name):
            imported = importlib.import_module(module)
            return getattr(imported, name) if name else imported
        case Reference(key):
            return built[key]
        case Namespace(items):
            namespace = types.ModuleType("namespace")
            vars(namespace).update({name: _decoded(item, built) for name, item in items})
            return namespace
