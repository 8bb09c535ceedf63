"""Bundles written by hand: records that no producer would write, around real code or none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hatch_tensoracle import Bundle
from hatch_tensoracle.bundle import Ptx

__all__ = ["Argument", "Code", "Entry", "code_of", "write_bundle"]


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An ArgumentRecord."""

    name: str
    type: str
    size: int
    divisible_by: int = 1
    equal_to: int | None = None

    def record(self) -> str:
        """As an initialiser."""
        kind = "POINTER" if self.type.startswith("*") else self.type.upper()
        passed = "true" if self.equal_to is None else "false"
        rest = f"{self.equal_to or 0}, {self.divisible_by}, ValueType::k{kind}, {self.size}, {passed}"
        return f'{{"{self.name}", "{self.type}", {rest}}}'


@dataclass(frozen=True, kw_only=True)
class Code:
    """A CodeRecord. It is true of nothing, unless made by code_of."""

    sm: int
    specific: bool = False
    ptx: bool = False
    data: bytes = b"no code"
    sha256: str | None = None
    registers: int = 0
    local: int = 0
    static_shared: int = 0
    dynamic_shared: int = 0
    threads: int = 128

    def record(self, symbol: str) -> str:
        """As an initialiser."""
        digest = self.sha256 or hashlib.sha256(self.data).hexdigest()
        numbers = (self.registers, self.local, self.static_shared, self.dynamic_shared, self.threads, self.sm)
        bits = ", ".join(str(bit).lower() for bit in (self.specific, self.ptx))
        octets = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(digest))
        return f"{{{symbol}, {len(self.data)}, {{{octets}}}, {', '.join(map(str, numbers))}, {bits}}}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An EntryRecord."""

    kernel: str
    codes: Sequence[Code]
    symbol: str = "symbol"
    arguments: Sequence[Argument] = field(default=())
    variant: int = 0


def code_of(bundle: Path, kernel: str, target: str) -> tuple[str, Code]:
    """The symbol and the truth about the first variant of a real bundle's kernel, for `sm86` or as `sm86 PTX`."""
    for entry, code in Bundle.parse((bundle / "bundle.json").read_bytes(), "bundle.json").codes():
        if (entry.kernel, code.label) != (kernel, target):
            continue
        common = Code(
            sm=int(code.target.removeprefix("sm")),
            data=(bundle / code.file).read_bytes(),
            dynamic_shared=code.dynamic_shared,
            threads=code.threads,
        )
        if isinstance(code, Ptx):
            return entry.symbol, replace(common, ptx=True)
        return entry.symbol, replace(
            common,
            specific=code.architecture_specific,
            registers=code.registers,
            local=code.local_bytes,
            static_shared=code.static_shared,
        )
    raise LookupError(kernel)


def write_bundle(entries: Sequence[Entry], directory: Path) -> None:
    """Write bundle.cpp and what it embeds."""
    tables, rows, assembly = [], [], []
    for i, entry in enumerate(entries):
        for j, code in enumerate(entry.codes):
            (directory / f"code_{i}_{j}").write_bytes(code.data)
            assembly.append(f'.balign 16\\n code_{i}_{j}: .incbin \\"code_{i}_{j}\\"\\n .byte 0\\n')
            tables.append(f'extern "C" __attribute__((visibility("hidden"))) std::uint8_t const code_{i}_{j}[];')
        codes = [code.record(f"code_{i}_{j}") for j, code in enumerate(entry.codes)]
        arguments = [argument.record() for argument in entry.arguments]
        tables.append(
            _table("ArgumentRecord", f"kARGUMENTS_{i}", arguments) + _table("CodeRecord", f"kCODES_{i}", codes)
        )
        counts = f"0, {entry.variant}, {len(arguments)}, 0, {len(codes)}"
        places = f"{f'kARGUMENTS_{i}' if arguments else 'nullptr'}, nullptr, {f'kCODES_{i}' if codes else 'nullptr'}"
        rows.append(f'{{"{entry.kernel}", "{entry.symbol}", {counts}, {places}}}')
    (directory / "bundle.cpp").write_text(
        "#include <tensoracle/bundle_entry.hpp>\n"
        f'asm(".pushsection .tensoracle.cubins, \\"a\\", @progbits\\n {"".join(assembly)} .popsection\\n");\n'
        "namespace tensoracle {\n"
        + "\n".join(tables)
        + _table("EntryRecord", "kENTRIES", rows)
        + 'BundleRecord const kBUNDLE = {"by hand", "", '
        + f"{'kENTRIES' if rows else 'nullptr'}, {len(rows)}, nullptr, 0}};\n}}\n"
    )


def _table(record: str, name: str, rows: Sequence[str]) -> str:
    return f"\nstatic {record} const {name}[] = {{\n  " + ",\n  ".join(rows) + "};\n" if rows else ""
