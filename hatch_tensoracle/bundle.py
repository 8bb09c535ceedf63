"""The manifest of a bundle: what `bundle.json` says about every cubin and PTX."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hatch_tensoracle._decode import DecodeError, decode, shown
from hatch_tensoracle.errors import ConfigurationError, ManifestError
from hatch_tensoracle.targets import TARGETS, parse_ptx_target
from hatch_tensoracle.tuning import Configuration, Tuning, check_tuning

__all__ = [
    "CUBIN_ALIGNMENT",
    "ELEMENT_SIZES",
    "MAX_CODE",
    "MAX_MANIFEST",
    "POINTER_SIZE",
    "SCALAR_SIZES",
    "SCHEMA",
    "Argument",
    "Bundle",
    "Code",
    "Constant",
    "Cubin",
    "Entry",
    "Ptx",
    "configuration_of",
    "entry_label",
]

SCHEMA = 1
CUBIN_ALIGNMENT = 16
"""Bytes: where one embedded cubin or PTX may start inside its section."""
POINTER_SIZE = 8
MAX_CODE = 64 << 20
"""Bytes of one cubin or PTX: the largest that are known have a tenth."""
MAX_MANIFEST = 16 << 20
"""Bytes of bundle.json: it has some 400 for a cubin, and 2000 for an entry."""
_MAX_VALUES = 1_000_000
"""In bundle.json: each takes Python some hundred bytes, of which it may need two in the text."""
_MAX_CHOICES = 1_000_000
"""Tuned ranges by configurations: each range is looked up among them."""

_INTEGER_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8}
SCALAR_SIZES = {"i1": 1, **_INTEGER_SIZES, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
"""Bytes of a kernel parameter of each scalar type, as Triton 3.6 to 3.9 lower it for CUDA."""
ELEMENT_SIZES = {**SCALAR_SIZES, "fp8e4nv": 1, "fp8e5": 1, "fp8e4b15": 1}
"""Bytes of one element behind a pointer; the names are Triton's."""


_CUBIN_FILE = re.compile(r"cubins/\w[\w.-]*\.cubin", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PTX_FILE = re.compile(r"ptx/\w[\w.-]*\.ptx", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One public argument of a kernel, in the order in which the launcher takes them."""

    name: str
    type: str
    """A scalar type such as `i32`, or `*` and an element type."""
    divisible_by: int = 1
    """What the kernel was compiled to assume: the address in bytes of a pointer, the value of an integer."""
    equal_to: int | None = None
    """The only value that the kernel was compiled for; it is not a kernel parameter then."""

    def __post_init__(self) -> None:
        sizes = ELEMENT_SIZES if self.type.startswith("*") else SCALAR_SIZES
        if self.type.removeprefix("*") not in sizes:
            raise DecodeError(f"unknown type `{self.type}`; known are {', '.join(sizes)}", "type")

    @property
    def size(self) -> int:
        """Bytes of the kernel parameter."""
        return POINTER_SIZE if self.type.startswith("*") else SCALAR_SIZES[self.type]

    @property
    def assumption(self) -> str:
        """How reports show what the kernel assumes of it: `/16`, `=1`, or nothing."""
        divisor = f"/{self.divisible_by}" if self.divisible_by > 1 else ""
        return divisor + (f"={self.equal_to}" if self.equal_to is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One compile-time constant of a kernel, as C++ can read it."""

    name: str
    kind: str
    """`none`, `bool`, `integer`, `number`, `text`, `dtype`, `function` or `tuple`."""
    value: bool | int | float | str | None
    """Of the kind; a number that JSON cannot hold is its `repr`, a dtype or a function its name, a tuple its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CodeFile:
    """What cubins and PTX have in common."""

    target: str
    file: str
    """Relative to the bundle directory, with forward slashes."""
    sha256: str
    size: int
    """Bytes."""
    dynamic_shared: int
    """Bytes per block that are given at launch."""
    scratch: int
    """Bytes of scratch memory that the kernel wants; the launcher has none to give."""
    threads: int
    """Per block, along x."""

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.target

    @property
    def embedded_size(self) -> int:
        """Bytes that a library embeds."""
        return self.size

    def _check(self, file: re.Pattern[str], form: str) -> None:
        if not file.fullmatch(self.file):
            raise DecodeError(f"must be a plain file name below {form}/, not {self.file!r}", "file")
        if not 0 <= self.size <= MAX_CODE:
            raise DecodeError(f"must be from 0 to {MAX_CODE} bytes, is {shown(self.size)}", "size")
        for field_ in dataclasses.fields(self):
            value = getattr(self, field_.name)
            if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
                raise DecodeError(f"must be a number of 32 bits, is {shown(value)}", field_.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin(_CodeFile):
    """One variant compiled for one target."""

    architecture_specific: bool
    """Compiled for the `a` form of the target, such as sm_90a: it runs on exactly that SM."""
    registers: int
    """Per thread."""
    local_bytes: int
    """Local memory per thread: spilled registers and stack."""
    static_shared: int
    """Bytes per block that are fixed in the cubin."""

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise DecodeError(f"unknown target `{self.target}`; known are {', '.join(TARGETS)}", "target")
        self._check(_CUBIN_FILE, "cubins")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptx(_CodeFile):
    """One variant as PTX text, which the driver compiles on a GPU that is newer than the target and that no cubin fits.

    What it needs of registers and local memory is its compiler's choice; static shared memory it has none.
    """

    version: str
    """Of the PTX ISA, such as `8.0`: older drivers refuse it."""

    def __post_init__(self) -> None:
        try:
            parse_ptx_target(self.target)
        except ValueError as error:
            raise DecodeError(str(error), "target") from error
        self._check(_PTX_FILE, "ptx")

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.target} PTX"

    @property
    def embedded_size(self) -> int:
        """Bytes that a library embeds: cuLibraryLoadData wants a NUL at the end."""
        return self.size + 1


Code: TypeAlias = Cubin | Ptx
"""What of an entry can be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One variant of one kernel in one configuration."""

    kernel: str
    configuration: int
    """Its place among the configurations of the kernel: tile sizes and other choices that the plugin makes."""
    variant: int
    """Its place among the variants: the first that accepts the arguments is launched."""
    symbol: str
    """The entry function's name in every cubin and in the PTX."""
    source_sha256: str
    """Over the source text of the kernel and its helpers, what they capture, the constants and the options."""
    arguments: tuple[Argument, ...]
    constants: tuple[Constant, ...]
    options: Mapping[str, bool | int | float | str | None]
    """Every compiler option, given or default."""
    cubins: tuple[Cubin, ...]
    ptx: Ptx | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.kernel):
            raise DecodeError(f"must be a C identifier, not {self.kernel!r}", "kernel")

    @property
    def codes(self) -> tuple[Code, ...]:
        """The cubins, and the PTX if there is one."""
        return (*self.cubins, self.ptx) if self.ptx is not None else self.cubins

    @property
    def label(self) -> str:
        """How messages call it."""
        return entry_label(self.kernel, self.configuration, self.variant)

    @property
    def parameters(self) -> tuple[Argument, ...]:
        """The arguments that are parameters of the cubin's entry function."""
        return tuple(argument for argument in self.arguments if argument.equal_to is None)

    @property
    def signature(self) -> str:
        """How reports show the arguments: `x:*fp16/16 size:i32`."""
        return " ".join(f"{argument.name}:{argument.type}{argument.assumption}" for argument in self.arguments)


def configuration_of(constants: Iterable[Constant], options: Configuration) -> Configuration:
    """What a kernel is compiled with, by name."""
    return {**{constant.name: constant.value for constant in constants}, **options}


def entry_label(kernel: str, configuration: int, variant: int) -> str:
    """How messages call an entry: `matmul#1`, and `matmul/2#1` in its third configuration."""
    return f"{kernel}/{configuration}#{variant}" if configuration else f"{kernel}#{variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The whole manifest. `parse` reads and checks one; `to_json` gives the same bytes for the same content."""

    entries: tuple[Entry, ...]
    targets: tuple[str, ...]
    tools: Mapping[str, str]
    """Version of each tool that had a part in the bytes."""
    minimum_driver: str
    """The oldest Linux driver that runs every cubin and compiles every PTX."""
    ptx_target: str | None = None
    """What every entry has PTX for, if any has."""
    tuning: tuple[Tuning, ...] = ()
    """Which configuration is the fastest, by shape, where that was measured."""
    schema: int = SCHEMA
    digest: str = field(default="")
    """SHA-256 over everything else."""

    def cubins(self) -> Iterator[tuple[Entry, Cubin]]:
        """Every cubin with its entry."""
        for entry in self.entries:
            for cubin in entry.cubins:
                yield entry, cubin

    @property
    def configurations(self) -> dict[str, list[Configuration]]:
        """Constants and options of each configuration of every kernel."""
        found: dict[str, list[Configuration]] = {}
        for entry in self.entries:
            if entry.variant == 0:
                found.setdefault(entry.kernel, []).append(configuration_of(entry.constants, entry.options))
        return found

    def codes(self) -> Iterator[tuple[Entry, Code]]:
        """Every cubin and PTX with its entry, in the order in which a library embeds them."""
        for entry in self.entries:
            for code in entry.codes:
                yield entry, code

    def embedded(self) -> Iterator[tuple[Entry, Code, int]]:
        """Every cubin and PTX with its offset in bytes in the section that a library embeds them in."""
        offset = 0
        for entry, code in self.codes():
            yield entry, code, offset
            offset += -(-code.embedded_size // CUBIN_ALIGNMENT) * CUBIN_ALIGNMENT

    def sealed(self) -> Bundle:
        """The same with its digest."""
        return dataclasses.replace(self, digest=_digest(dataclasses.asdict(self)))

    def to_json(self) -> bytes:
        """The bytes of bundle.json."""
        content = dataclasses.asdict(self)
        return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, text: bytes, where: str) -> Bundle:
        """Read bundle.json. Raises ManifestError, naming `where`."""
        content = _load(text, where)
        schema = content.get("schema") if isinstance(content, dict) else None
        if schema != SCHEMA:
            raise ManifestError(
                f"has schema {shown(schema)}; this release reads {SCHEMA}",
                where=where,
                remedy="Inspect it with the release of hatch-tensoracle that wrote it.",
            )
        try:
            bundle = decode(cls, content)
            expected = _digest(content)
        except (ValueError, RecursionError) as error:
            # Of decode; of NaN, infinity and half surrogate pairs, which no digest is of; of what is nested too deep.
            raise ManifestError(str(error), where=where) from error
        if bundle.digest != expected:
            raise ManifestError(f"says digest {shown(bundle.digest)}, its content has {expected}", where=where)
        for problem in _problems(bundle):
            raise ManifestError(problem, where=where)
        return bundle


def _problems(bundle: Bundle) -> Iterator[str]:
    """What parts of the manifest say of one another and is not so."""
    configurations, ranges = bundle.configurations, sum(len(tuning.ranges) for tuning in bundle.tuning)
    if ranges * (most := max(map(len, configurations.values()), default=0)) > _MAX_CHOICES:
        yield f"has {ranges} tuned ranges, for up to {most} configurations of a kernel"
        return
    try:
        check_tuning(bundle.tuning, configurations)
    except ConfigurationError as error:
        yield str(error)
    for entry in bundle.entries:
        if (targets := tuple(cubin.target for cubin in entry.cubins)) != bundle.targets:
            yield f"promises {', '.join(bundle.targets)}, but kernel `{entry.label}` has {', '.join(targets)}"
        if (ptx := entry.ptx.target if entry.ptx is not None else None) != bundle.ptx_target:
            yield f"promises PTX for {bundle.ptx_target}, but kernel `{entry.label}` has PTX for {ptx}"


def _load(text: bytes, where: str) -> Any:
    values = sum(map(text.count, (b",", b"[", b"{")))
    if len(text) > MAX_MANIFEST or values > _MAX_VALUES:
        limits = f"at most {MAX_MANIFEST} and {_MAX_VALUES} are read"
        raise ManifestError(f"has {len(text)} bytes and some {values} values; {limits}", where=where)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"is not JSON: {error}", where=where) from error


def _digest(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
