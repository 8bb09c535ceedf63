"""PTX text is read as far as a manifest speaks of it, whatever it is written by."""

from __future__ import annotations

import contextlib
import time

import pytest

from hatch_tensoracle.ptx import PtxEntry, PtxError, read_ptx

HEADER = ".version 8.0\n.target sm_89\n.address_size 64\n"


def of(text: str, header: str = HEADER) -> tuple[PtxEntry, ...]:
    return read_ptx((header + text).encode()).entries


def test_a_module_says_its_version_and_target() -> None:
    image = read_ptx(b"//\n// a compiler's name\n//\n\n" + HEADER.encode() + b"// nothing else\n")
    assert (image.version, image.target, image.entries) == ("8.0", "sm_89", ())
    assert read_ptx(HEADER.replace("sm_89", "sm_90a, debug").encode()).target == "sm_90a, debug"


@pytest.mark.parametrize(
    ("parameter", "size"),
    [
        pytest.param(".param .u64 x", 8, id="integer"),
        pytest.param(".param .u8 x", 1, id="byte"),
        pytest.param(".param .b16 x", 2, id="bits"),
        pytest.param(".param .f32 x", 4, id="number"),
        pytest.param(".param .u64 .ptr .global .align 1 x_param_0", 8, id="pointer"),
        pytest.param(".param .u64 .ptr .align 16 x", 8, id="pointer without space"),
        pytest.param(".param .align 64 .b8 x[128]", 128, id="structure"),
        pytest.param("\n\t.param\t.u32\t$x%\n", 4, id="tabs and lines"),
    ],
)
def test_parameters_have_their_sizes(parameter: str, size: int) -> None:
    assert of(f".visible .entry f({parameter}, .param .u32 last) {{ ret; }}") == (
        PtxEntry(symbol="f", parameters=(size, 4), threads=0),
    )


@pytest.mark.parametrize(
    ("directives", "threads"),
    [
        pytest.param("", 0, id="open"),
        pytest.param(".reqntid 128", 128, id="one extent"),
        pytest.param(".maxnreg 32\n.reqntid 8, 4,2\n", 64, id="three extents"),
        pytest.param(".maxntid 1024, 1, 1", 0, id="at most"),
    ],
)
def test_required_threads_are_read(directives: str, threads: int) -> None:
    assert of(f".entry f() {directives} {{ ret; }}") == (PtxEntry(symbol="f", parameters=(), threads=threads),)


def test_only_entry_functions_are_read_and_bodies_are_not() -> None:
    """Functions call one another, and braces stand around vectors."""
    text = """
    .func (.param .b32 r) helper(.param .b32 a) { ret; }
    .entry one(.param .u32 a) { { .reg .b32 x; } mov.b64 { x, y }, z; /* .entry no() { */ ret; }
    .extern .func far;
    .entry two { ret; } // .entry three { }
    """
    assert [(entry.symbol, entry.parameters) for entry in of(text)] == [("one", (4,)), ("two", ())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\n.shared .align 16 .b8 tile[512];", True, id="fixed"),
        pytest.param("\n.visible .shared .b32 tile[4];", True, id="visible"),
        pytest.param("\n.extern .shared .align 16 .b8 tile[];", False, id="given at launch"),
        pytest.param(".entry f { ld.shared.b32 x, [y]; cp.async.cg.shared.global [x], [y], 16; }", False, id="used"),
        pytest.param(".entry f {\n.shared .align 4 .b8 tile[4]; ret; }", True, id="in a function"),
    ],
)
def test_shared_memory_of_fixed_size_is_seen(text: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert read_ptx((HEADER + text).encode()).has_static_shared is expected


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        pytest.param(b"\x7fELF\x02\x01\xff", "is not text: byte 6 is 0xff", id="binary"),
        pytest.param(HEADER.encode() + b"\0", f"is not text: byte {len(HEADER)} is 0x00", id="NUL"),
        pytest.param(b"", "does not begin with .version", id="empty"),
        pytest.param(b"some text\n", "does not begin with .version", id="text"),
        pytest.param(HEADER.replace("64", "32").encode(), "does not begin with .version", id="32 bits"),
        pytest.param((HEADER + ".entry f() { ret;").encode(), "opens 1 braces and closes 0", id="cut off"),
        pytest.param((HEADER + ".entry f(.param .u32 { ret; }").encode(), "has an entry function without", id="open"),
        pytest.param((HEADER + ".entry a .entry b { ret; }").encode(), "has an entry function without", id="two heads"),
        pytest.param((HEADER + ".entry (.param .u32 x) { }").encode(), "has an entry function without", id="no name"),
        pytest.param(
            (HEADER + ".entry f(.param .v2 .u32 x) { }").encode(), "of unknown form: .param .v2 .u32 x", id="parameter"
        ),
    ],
)
def test_what_is_no_ptx_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(PtxError) as caught:
        read_ptx(data)
    assert cause in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("/*" * 500_000, id="comments that do not end"),
        pytest.param(".entry " * 150_000, id="entries without body"),
        pytest.param(" " * 1_000_000, id="blanks"),
        pytest.param(".entry f(" + "," * 1_000_000 + ") { }", id="empty parameters"),
        pytest.param(".entry f(.param .u32 " + "x" * 1_000_000 + ") { }", id="a long name"),
        pytest.param(".entry f" + "x" * 1_000_000 + ") { }", id="a long name and no list"),
        pytest.param(".entry f" + " " * 1_000_000 + ") { }", id="blanks and no list"),
        pytest.param(".entry f() " + ".reqntid 1," * 90_000 + "{ }", id="threads"),
        pytest.param("{}" * 500_000, id="braces"),
    ],
)
def test_a_megabyte_of_hostile_text_is_read_at_once(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(PtxError):
        read_ptx((HEADER + text).encode())
    assert time.process_time() - start < 5, "a quadratic reader takes minutes"


def test_a_megabyte_of_blanks_in_the_head_is_read_at_once() -> None:
    start = time.process_time()
    with pytest.raises(PtxError, match="does not begin with"):
        read_ptx(b".version 8.0 .target" + b" " * 1_000_000)
    assert time.process_time() - start < 5, "a quadratic reader takes minutes"
