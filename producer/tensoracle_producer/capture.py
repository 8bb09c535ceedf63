"""Makes the record of a live `triton.jit` function."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import symtable
import sys
import sysconfig
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

_DEFAULT = "__default_"
"""Begins the names that stand for default values in the normalised source."""
_LANGUAGE = "__language"
"""The name of triton.language in what the normalised source has besides."""


def capture(function: Any, constants: Mapping[str, Any], types: Mapping[str, str]) -> KernelRecord:
    """Make the record of a `triton.jit` function and of the constants it is compiled with. Raises CaptureError.

    A constant that is in `types`, with a type such as `i64`, has that type in the kernel. Any other is a constexpr, and
    a number that is one becomes 32 bits wide, or as narrow as what it meets.
    """
    capturing = _Capture()
    where = f"{_file(function)}: constant `{{}}` of `{function.fn.__qualname__}`"
    capturing.function(function, types)
    values = tuple((name, capturing.value(value, where.format(name))) for name, value in constants.items())
    return KernelRecord(functions=tuple(capturing.functions.items()), constants=values)


class _Capture:
    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self._keys: dict[int, str] = {}

    def function(self, jit: Any, types: Mapping[str, str] | None = None) -> Reference:
        """Add the function and its helpers."""
        if id(jit) in self._keys:
            return Reference(self._keys[id(jit)])
        key = f"{jit.fn.__module__}:{jit.fn.__qualname__}"
        if key in self._keys.values():  # made by a factory: alike in name, other in what it captures
            key += f"#{len(self._keys)}"
        self._keys[id(jit)] = key
        source, lines, added = _normalised(jit, types or {})
        self.functions[key] = placeholder = Function(
            module=jit.fn.__module__,
            qualname=jit.fn.__qualname__,
            source=source,
            is_constexpr=not hasattr(jit, "params"),
            noinline=bool(getattr(jit, "noinline", False)),
            names=(),
            file=_file(jit),
            lines=lines,
        )
        # Its place is taken before its helpers are added: a function may call itself, and the kernel stays first.
        scope = jit.get_capture_scope() | added
        names = tuple(self._names(scope, source, f"{placeholder.file}: `{jit.fn.__qualname__}`"))
        self.functions[key] = dataclasses.replace(placeholder, names=names)
        return Reference(key)

    def _names(self, scope: Mapping[str, Any], source: str, where: str) -> Iterator[tuple[str, Value]]:
        uses = _attribute_uses(ast.parse(source))
        for name in sorted(_free_names(source) & scope.keys()):
            what = (
                f"has a default for `{name.removeprefix(_DEFAULT)}`" if name.startswith(_DEFAULT) else f"uses `{name}`"
            )
            yield name, self.value(scope[name], f"{where} {what}, which", uses.get(name, frozenset()))

    def value(self, value: Any, where: str, uses: frozenset[tuple[str, ...]] = frozenset()) -> Value:
        """Encode what a name stands for; `uses` holds the chains of attributes read from it, () for the bare name."""
        from triton.language.core import constexpr, dtype
        from triton.runtime.jit import JITCallable

        if isinstance(value, enum.Enum) and isinstance(value.value, int | float | str):
            inner = self.value(value.value, where)
            return Constexpr(inner) if uses else inner  # a constexpr has the attribute `value` too
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


def _file(jit: Any) -> str:
    return Path(jit.fn.__code__.co_filename).name


def _normalised(jit: Any, typed: Mapping[str, str]) -> tuple[str, tuple[tuple[int, int], ...], dict[str, Any]]:
    """The source that is compiled, where its lines come from, and what it refers to that the author's does not."""
    tree = jit.parse()
    definition = tree.body[0]
    definition.decorator_list, definition.returns = [], None
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:] or [ast.Pass()]
    annotations = {param.name: param.annotation for param in getattr(jit, "params", ())}
    for arg in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs):
        # Triton takes annotations as strings too, and none of the author's names is looked up then.
        arg.annotation = ast.Constant(annotations[arg.arg]) if annotations.get(arg.arg) else None
    added = _named_defaults(definition.args, jit.signature)
    if typed:
        from triton import language

        added[_LANGUAGE] = language
        definition.body[:0] = [_typing(name, type_, definition) for name, type_ in typed.items()]
    source = ast.unparse(definition)
    before = _first_line(jit) - 1
    lines: dict[int, int] = {}
    for new, old in zip(ast.walk(ast.parse(source)), ast.walk(tree), strict=True):
        if isinstance(new, ast.stmt) and hasattr(old, "lineno"):
            lines.setdefault(new.lineno, old.lineno + before)
    return source, tuple(sorted(lines.items())), added


def _typing(name: str, type_: str, function: ast.stmt) -> ast.stmt:
    """A statement that makes a number of the type out of a constexpr."""
    from triton.language import str_to_ty

    dtype = f"{_LANGUAGE}.{str_to_ty(type_, None).name}"
    (statement,) = ast.parse(f"{name} = {_LANGUAGE}.full((), {name}, {dtype})").body
    return ast.copy_location(statement, function)


def _named_defaults(arguments: ast.arguments, signature: inspect.Signature) -> dict[str, Any]:
    """Put names in the place of defaults that are expressions: evaluated again, they might give something else."""
    positional = [*arguments.posonlyargs, *arguments.args]
    positional = positional[len(positional) - len(arguments.defaults) :]
    named = {}
    for parameters, defaults in ((positional, arguments.defaults), (arguments.kwonlyargs, arguments.kw_defaults)):
        for i, (parameter, default) in enumerate(zip(parameters, defaults, strict=True)):
            if default is not None and not isinstance(default, ast.Constant):
                name = _DEFAULT + parameter.arg
                defaults[i] = ast.Name(name, ast.Load())
                named[name] = signature.parameters[parameter.arg].default
    return named


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
    is_module = isinstance(value, types.ModuleType)
    module = value.__name__ if is_module else getattr(value, "__module__", None)
    if not isinstance(module, str) or (home := sys.modules.get(module)) is None or not _is_everywhere(home):
        return None
    if is_module:
        return Import(module) if value is home else None
    name = getattr(value, "__name__", None)
    return Import(module, name) if name and getattr(home, name, None) is value else None


def _is_everywhere(module: types.ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return top == "triton"
    file = getattr(module, "__file__", None)  # the author may have one of the same name
    return file is None or Path(file).is_relative_to(sysconfig.get_path("stdlib"))


def _described(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type | types.FunctionType):
        return f"the Python {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
    return f"an object of type {type(value).__module__}.{type(value).__qualname__}"
