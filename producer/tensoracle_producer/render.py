"""Renders the C++ that embeds a bundle: the cubins and PTX, the manifest and the records that the launcher reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from hatch_tensoracle._paths import templates
from hatch_tensoracle.bundle import CUBIN_ALIGNMENT, Argument, Bundle, Code, Constant, Entry, Ptx
from hatch_tensoracle.data_types import DATA_TYPES
from hatch_tensoracle.targets import TARGETS
from hatch_tensoracle.tuning import Configuration, Tuning, find_configuration

__all__ = ["render_bundle", "write_bundle"]

_CONSTANT_KINDS = {
    "none": "kNONE",
    "bool": "kBOOL",
    "integer": "kINTEGER",
    "number": "kNUMBER",
    "text": "kTEXT",
    "dtype": "kTEXT",
    "function": "kTEXT",
    "tuple": "kTEXT",
}


_PART = 16 << 20
"""Bytes of cubins in one source: the assembler holds them in memory, and more than one core can work."""


def write_bundle(bundle: Bundle, manifest: bytes, files: Mapping[str, bytes], directory: Path) -> None:
    """Write manifest, code and sources into an empty directory; `files` has the code by its path."""
    for name, data in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(data)
    (directory / "bundle.json").write_bytes(manifest)
    for name, text in render_bundle(bundle).items():
        (directory / name).write_text(text, encoding="utf-8")


def render_bundle(bundle: Bundle) -> dict[str, str]:
    """The sources that embed the bundle, by name: bundle.cpp and a cubins_N.cpp for every 16 MiB of cubins.

    Their paths are relative to the bundle directory. They are to be linked in this order.
    """
    parts = _parts(bundle)
    places = {code.file: f"tensoracle_cubins_{i} + {at}" for i, part in enumerate(parts) for code, at in part}
    sources = {
        "bundle.cpp": _template("bundle.cpp").substitute(
            declarations="\n".join(
                f"TENSORACLE_HIDDEN std::uint8_t const tensoracle_cubins_{i}[];" for i in range(len(parts))
            ),
            tables="\n".join(_tables(i, entry, places) for i, entry in enumerate(bundle.entries)),
            entries="\n".join(_entry(i, entry) for i, entry in enumerate(bundle.entries)),
            entry_count=len(bundle.entries),
            digest=bundle.digest,
            tunings=_tunings(bundle),
            tuning_table="kTUNINGS" if bundle.tuning else "nullptr",
            tuning_count=len(bundle.tuning),
        )
    }
    for i, part in enumerate(parts):
        incbins = "\n".join(_incbin(code) for code, _ in part)
        sources[f"cubins_{i:03}.cpp"] = _template("cubins.cpp").substitute(
            symbol=f"tensoracle_cubins_{i}", alignment=CUBIN_ALIGNMENT, incbins=incbins
        )
    return sources


def _template(name: str) -> Template:
    return Template((templates() / name).read_text(encoding="utf-8"))


def _parts(bundle: Bundle) -> list[list[tuple[Code, int]]]:
    """The code of each source, with its offset in bytes from the first."""
    parts: list[list[tuple[Code, int]]] = []
    start = 0
    for _, code, offset in bundle.embedded():
        if not parts or offset + code.embedded_size - start > _PART:
            parts.append([])
            start = offset
        parts[-1].append((code, offset - start))
    return parts


def _incbin(code: Code) -> str:
    end = "\n  .byte 0" if isinstance(code, Ptx) else ""
    return f'  .balign {CUBIN_ALIGNMENT}\n  .incbin "{code.file}"{end}'


def _tables(i: int, entry: Entry, places: dict[str, str]) -> str:
    codes = [_code(code, places[code.file]) for code in entry.codes]
    return (
        _table("ArgumentRecord", f"kARGUMENTS_{i}", [_argument(argument) for argument in entry.arguments])
        + _table("ConstantRecord", f"kCONSTANTS_{i}", [_constant(constant) for constant in entry.constants])
        + _table("CodeRecord", f"kCODES_{i}", codes)
    )


def _table(record: str, name: str, rows: list[str]) -> str:
    if not rows:
        return ""
    return f"constexpr {record} {name}[] = {{\n" + "".join(f"    {{{row}}},\n" for row in rows) + "};\n"


def _argument(argument: Argument) -> str:
    kind = "kPOINTER" if argument.type.startswith("*") else f"k{argument.type.upper()}"
    is_passed = argument.equal_to is None
    return ", ".join(
        (
            _string(argument.name),
            _string(argument.type),
            _integer(argument.equal_to or 0),
            str(argument.divisible_by),
            f"ValueType::{kind}",
            str(argument.size),
            _bool(value=is_passed),
        )
    )


def _constant(constant: Constant) -> str:
    kind = _CONSTANT_KINDS[constant.kind]
    integer = _integer(int(constant.value)) if isinstance(constant.value, int) else "0"
    number = _number(float(constant.value)) if constant.kind == "number" and constant.value is not None else "0"
    text = _string(constant.value) if kind == "kTEXT" and isinstance(constant.value, str) else "nullptr"
    return f"{_string(constant.name)}, ConstantKind::{kind}, {integer}, {number}, {text}"


def _code(code: Code, place: str) -> str:
    digest = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(code.sha256))
    if isinstance(code, Ptx):
        resources, specific = "0, 0, 0", False
    else:
        resources, specific = f"{code.registers}, {code.local_bytes}, {code.static_shared}", code.architecture_specific
    return (
        f"{place}, {code.size}, {{{digest}}}, {resources}, {code.dynamic_shared}, {code.threads},"
        f" {TARGETS[code.target].sm}, {_bool(value=specific)}, {_bool(value=isinstance(code, Ptx))}"
    )


def _entry(i: int, entry: Entry) -> str:
    tables = (
        f"kARGUMENTS_{i}" if entry.arguments else "nullptr",
        f"kCONSTANTS_{i}" if entry.constants else "nullptr",
        f"kCODES_{i}",
    )
    counts = (len(entry.arguments), len(entry.constants), len(entry.codes))
    row = (_string(entry.kernel), _string(entry.symbol), entry.configuration, entry.variant, *counts, *tables)
    return f"    {{{', '.join(map(str, row))}}},"


def _tunings(bundle: Bundle) -> str:
    known = bundle.configurations
    tables = "".join(_tuning_tables(i, tuning, known[tuning.kernel]) for i, tuning in enumerate(bundle.tuning))
    return tables + _table("TuningRecord", "kTUNINGS", [_tuning(i, tuning) for i, tuning in enumerate(bundle.tuning)])


def _tuning_tables(i: int, tuning: Tuning, configurations: Sequence[Configuration]) -> str:
    tables, rows = [], []
    for j, each in enumerate(tuning.ranges):
        extents = [bounds for axes in each.boxes for bounds in ((len(axes), len(axes)), *axes)]
        configuration = find_configuration(configurations, each.configuration)
        tables.append(
            _table("ExtentRange", f"kEXTENTS_{i}_{j}", [f"{least}, {greatest}" for least, greatest in extents])
        )
        rows.append(f"kEXTENTS_{i}_{j}, {len(extents)}, {configuration}")
    types = [str(list(DATA_TYPES).index(type_)) for type_ in tuning.types]
    fields = [_field(name, value) for name, value in tuning.fields.items()]
    return (
        "".join(tables)
        + f"constexpr std::int32_t kTUNED_TYPES_{i}[] = {{{', '.join(types)}}};\n"
        + _table("ConstantRecord", f"kTUNED_FIELDS_{i}", fields)
        + _table("TunedRangeRecord", f"kTUNED_RANGES_{i}", rows)
    )


def _field(name: str, value: float | str) -> str:
    """The ConstantRecord of a plugin field; an integer is a number too."""
    if isinstance(value, str):
        return f"{_string(name)}, ConstantKind::kTEXT, 0, 0, {_string(value)}"
    kind, integer = ("kINTEGER", _integer(value)) if isinstance(value, int) else ("kNUMBER", "0")
    return f"{_string(name)}, ConstantKind::{kind}, {integer}, {_number(float(value))}, nullptr"


def _tuning(i: int, tuning: Tuning) -> str:
    tables = (
        f"kTUNED_TYPES_{i}",
        f"kTUNED_FIELDS_{i}" if tuning.fields else "nullptr",
        f"kTUNED_RANGES_{i}" if tuning.ranges else "nullptr",
    )
    counts = (len(tuning.types), len(tuning.fields), len(tuning.ranges), tuning.sm)
    names = map(_string, (tuning.plugin, tuning.version, tuning.namespace))
    return ", ".join((*names, *tables, *map(str, counts)))


def _string(text: str) -> str:
    """A C++ string literal; everything but plain ASCII as octal escapes, which end after three digits."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())  # noqa: PLR2004 - printable ASCII
    return f'"{"".join(plain)}"'


def _integer(value: int) -> str:
    return f"{value}" if value != -(2**63) else "INT64_MIN"


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return '__builtin_nan("")'
    if value in {float("inf"), float("-inf")}:
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return value.hex()


def _bool(*, value: bool) -> str:
    return "true" if value else "false"
