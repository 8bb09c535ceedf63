"""Makes the record of a live `triton.jit` function."""

from __future__ import annotations

import ast
import dataclasses
import enum
import symtable
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensoracle_producer.errors import CaptureError
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

__all__ = ["capture"]


def capture(function: Any, constants: Mapping[str, Any]) -> KernelRecord:
    """Make the record of a `triton.jit` function and of the constants it is compiled with. Raises CaptureError."""
    capturing = _Capture()
    capturing.function(function)
    values = tuple((name, capturing.value(value, f"constant `{name}`")) for name, value in constants.items())
    return KernelRecord(functions=tuple(capturing.functions.items()), constants=values)


class _Capture:
    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self._keys: dict[int, str] = {}

    def function(self, jit: Any) -> Reference:
        """Add the function and its helpers."""
        if id(jit) in self._keys:
            return Reference(self._keys[id(jit)])
        key = f"{jit.fn.__module__}:{jit.fn.__qualname__}"
        if key in self._keys.values():  # made by a factory: alike in name, other in what it captures
            key += f"#{len(self._keys)}"
        self._keys[id(jit)] = key
        source, lines = _normalised(jit)
        self.functions[key] = placeholder = Function(
            module=jit.fn.__module__,
            qualname=jit.fn.__qualname__,
            source=source,
            is_constexpr=not hasattr(jit, "params"),
            noinline=bool(getattr(jit, "noinline", False)),
            names=(),
            file=Path(jit.fn.__code__.co_filename).name,
            lines=lines,
        )
        # Its place is taken before its helpers are added: a function may call itself, and the kernel stays first.
        names = tuple(self._names(jit, source, f"{placeholder.file}: `{jit.fn.__qualname__}`"))
        self.functions[key] = dataclasses.replace(placeholder, names=names)
        return Reference(key)

    def _names(self, jit: Any, source: str, where: str) -> Iterator[tuple[str, Value]]:
        scope = jit.get_capture_scope()
        uses = _attribute_uses(ast.parse(source))
        for name in sorted(_free_names(source)):
            if name in scope:
                yield name, self.value(scope[name], f"{where} uses `{name}`, which", uses.get(name, frozenset()))

    def value(self, value: Any, where: str, uses: frozenset[tuple[str, ...]] = frozenset()) -> Value:
        """Encode what a name stands for; `uses` holds the chains of attributes read from it, () for the bare name."""
        from triton.language.core import constexpr, dtype
        from triton.runtime.jit import JITCallable

        if isinstance(value, enum.Enum) and isinstance(value.value, int | float | str):
            value = value.value
        if value is None or type(value) in {bool, int, float, str, bytes}:
            return Literal(value)
        if type(value) in {tuple, list}:
            return Sequence(tuple(self.value(item, where) for item in value), isinstance(value, tuple))
        if isinstance(value, constexpr):
            return Constexpr(self.value(value.value, where))
        if isinstance(value, dtype) and type(value) is dtype:
            return Dtype(value.name)
        if (found := _importable(value)) is not None:
            return found
        if isinstance(value, JITCallable) and hasattr(value, "fn"):
            return self.function(value)
        heads = sorted({chain[0] for chain in uses if chain})
        if () in uses or not heads:
            message = f"{where} is {_described(value)}"
            raise CaptureError(message, remedy="Make it a tl.constexpr number, a dtype or a triton.jit function.")
        return Namespace(
            tuple(
                (
                    head,
                    self.value(
                        getattr(value, head),
                        f"{where} has the attribute `{head}`, which",
                        frozenset(chain[1:] for chain in uses if chain and chain[0] == head),
                    ),
                )
                for head in heads
                if hasattr(value, head)
            )
        )


def _normalised(jit: Any) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The source that is compiled, and where its lines come from."""
    tree = jit.parse()
    definition = tree.body[0]
    definition.decorator_list, definition.returns = [], None
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:] or [ast.Pass()]
    annotations = {param.name: param.annotation for param in getattr(jit, "params", ())}
    for arg in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs):
        # Triton takes annotations as strings too, and none of the author's names is looked up then.
        arg.annotation = ast.Constant(annotations[arg.arg]) if annotations.get(arg.arg) else None
    source = ast.unparse(definition)
    before = _first_line(jit) - 1
    lines: dict[int, int] = {}
    for new, old in zip(ast.walk(ast.parse(source)), ast.walk(tree), strict=True):
        if isinstance(new, ast.stmt) and hasattr(old, "lineno"):
            lines.setdefault(new.lineno, old.lineno + before)
    return source, tuple(sorted(lines.items()))


def _first_line(jit: Any) -> int:
    """The line of `def`, after the decorators."""
    for offset, line in enumerate(jit.raw_src):
        if line.lstrip().startswith("def "):
            return int(jit.starting_line_number) + offset
    return int(jit.starting_line_number)


def _free_names(source: str) -> set[str]:
    """Names that the source takes from outside: by Python's own scoping, defaults included."""
    module = symtable.symtable(source, "", "exec")
    names = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
    inner = list(module.get_children())
    while inner:
        table = inner.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        inner += table.get_children()
    return names


def _attribute_uses(tree: ast.AST) -> dict[str, frozenset[tuple[str, ...]]]:
    """For each name, the chains of attributes that are read from it: {"helpers": {("scale",)}}."""
    uses: dict[str, set[tuple[str, ...]]] = {}

    def visit(node: ast.AST, chain: tuple[str, ...]) -> None:
        if isinstance(node, ast.Attribute):
            visit(node.value, (node.attr, *chain))
            return
        if isinstance(node, ast.Name):
            uses.setdefault(node.id, set()).add(chain)
        for child in ast.iter_child_nodes(node):
            visit(child, ())

    visit(tree, ())
    return {name: frozenset(chains) for name, chains in uses.items()}


def _importable(value: Any) -> Import | None:
    """A reference to what every worker has: Triton and the standard library."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] not in sys.stdlib_module_names | {"triton"}:
        return None
    if isinstance(value, types.ModuleType):
        return None if module == "__main__" else Import(module)
    name = getattr(value, "__name__", None)
    return Import(module, name) if name and getattr(sys.modules.get(module), name, None) is value else None


def _described(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type | types.FunctionType):
        return f"the Python {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    return f"an object of type {type(value).__module__}.{type(value).__qualname__}"
