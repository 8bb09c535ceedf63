"""Every class of defect: one good artifact, one thing damaged, that very error and nothing that does not follow."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.bundles import (
    change_cubins,
    change_manifest,
    change_ptx,
    collect,
    embedded_code,
    replace_cubin,
    replace_ptx,
    sealed,
)
from helpers.libraries import link_library, link_stub
from helpers.sections import change_section
from helpers.tools import assemble, run, tool

from hatch_tensoracle import Bundle, inspect_bundle, inspect_wheel
from hatch_tensoracle.bundle import MAX_CODE
from hatch_tensoracle.elf import read_cubin
from hatch_tensoracle.errors import (
    BundleError,
    BundleMismatchError,
    CorruptCubinError,
    CorruptPtxError,
    DependencyError,
    EntryAbiError,
    ExportError,
    FalsePtxError,
    FalseSmError,
    LibraryError,
    ManifestError,
    MissingCubinError,
    MissingPluginError,
    MissingPtxError,
    ResourceMismatchError,
    ScratchError,
    UnexpectedFileError,
)
from hatch_tensoracle.inspection import MOST_DEFECTS, check_bundle, check_library, inspect_library, manifest_name
from hatch_tensoracle.inspection import collect as collect_defects


@pytest.fixture
def bundle(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A bundle directory to be damaged."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))


def cubin_of(directory: Path, target: str) -> Path:
    (path,) = (directory / "cubins").glob(f"*.{target}.cubin")
    return path


def expect(directory: Path, *errors: type[BundleError], library: Path | None = None) -> list[BundleError]:
    """Check that the defects are exactly these, and that inspect_bundle raises the first."""
    defects, _ = collect(check_bundle(directory, library))
    assert [type(defect) for defect in defects] == list(errors)
    with pytest.raises(BundleError) as caught:
        inspect_bundle(directory, plugin=library)
    assert type(caught.value) is errors[0]
    assert str(caught.value) == str(defects[0])
    return defects


def test_a_good_bundle_is_returned(tiny_bundle: Path) -> None:
    bundle = inspect_bundle(str(tiny_bundle))
    assert bundle == Bundle.parse((tiny_bundle / "bundle.json").read_bytes(), "")
    assert collect(check_bundle(tiny_bundle)) == ([], bundle)


def test_a_missing_cubin_is_named(bundle: Path) -> None:
    cubin = cubin_of(bundle, "sm89")
    cubin.unlink()
    (defect,) = expect(bundle, MissingCubinError)
    assert f"cubins/{cubin.name} cannot be read: No such file" in defect.cause


def test_a_directory_in_the_place_of_a_cubin_is_a_missing_cubin(bundle: Path) -> None:
    cubin = cubin_of(bundle, "sm89")
    cubin.unlink()
    cubin.mkdir()
    expect(bundle, MissingCubinError)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:1000] + bytes([data[1000] ^ 1]) + data[1001:], id="one bit"),
        pytest.param(lambda data: data[:-1], id="the last byte cut off"),
        pytest.param(lambda data: data + b"\0", id="a byte appended"),
        pytest.param(lambda _: b"", id="empty"),
    ],
)
def test_a_cubin_whose_bytes_have_changed_is_corrupt(bundle: Path, damage: Callable[[bytes], bytes]) -> None:
    cubin = cubin_of(bundle, "sm86")
    cubin.write_bytes(damage(cubin.read_bytes()))
    (defect,) = expect(bundle, CorruptCubinError)
    assert "kernel `copy#0` for sm86" in defect.where
    assert cubin.name in defect.where


def test_a_digest_that_was_rewritten_to_fit_breaks_the_manifests_own(bundle: Path) -> None:
    """Whoever changes a cubin and its SHA-256 must change the manifest's digest too, which library and wheel hold."""
    content = json.loads((bundle / "bundle.json").read_bytes())
    content["entries"][0]["cubins"][0]["sha256"] = "0" * 64
    (bundle / "bundle.json").write_text(json.dumps(content))
    (defect,) = expect(bundle, ManifestError)
    assert "says digest" in defect.cause


def test_bytes_that_are_no_cubin_are_corrupt_though_their_digest_fits(bundle: Path) -> None:
    replace_cubin(bundle, "sm86", b"no cubin at all")
    (defect,) = expect(bundle, CorruptCubinError)
    assert "not a readable ELF" in defect.cause


def test_a_cubin_of_another_sm_is_found_though_its_digest_fits(bundle: Path) -> None:
    """A real cubin for sm89, filed under sm86."""
    replace_cubin(bundle, "sm86", cubin_of(bundle, "sm89").read_bytes())
    (defect,) = expect(bundle, FalseSmError)
    assert defect.cause == "the ELF header says sm89"
    assert "for sm86" in defect.where


@pytest.mark.parametrize(("target", "claim"), [("sm86", True), ("sm120", False)])
def test_a_false_claim_of_being_architecture_specific_is_found(bundle: Path, target: str, *, claim: bool) -> None:
    change_cubins(bundle, target, architecture_specific=claim)
    (defect,) = expect(bundle, FalseSmError)
    assert f"the manifest says {claim}" in defect.cause


def assembled(directory: Path, parameters: str, threads: int = 128, body: str = "") -> bytes:
    """Make a cubin for sm86 with other parameters than the manifest's `copy`, or another body."""
    entry = f".visible .entry copy({parameters}) .reqntid {threads} {{ {body} ret; }}"
    text = f".version 8.6\n.target sm_86\n.address_size 64\n{entry}"
    return assemble(text, directory, target="sm_86").read_bytes()


RIGHT = ".param .u64 a, .param .u64 b, .param .u32 n, .param .u64 s, .param .u64 p"


def resources_of(bundle: Path, target: str) -> dict[str, int]:
    (kernel,) = read_cubin(cubin_of(bundle, target).read_bytes()).kernels
    return {name: getattr(kernel, name) for name in ("registers", "local_bytes", "static_shared", "threads")}


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        pytest.param(f"{RIGHT}, .param .u64 hidden", "0+8 8+8 16+4 24+8 32+8 40+8", id="a hidden argument more"),
        pytest.param(RIGHT.replace(", .param .u64 p", ""), "0+8 8+8 16+4 24+8", id="a hidden argument less"),
        pytest.param(RIGHT.replace(".u32 n", ".u64 n"), "0+8 8+8 16+8 24+8 32+8", id="a wider argument"),
        pytest.param(RIGHT.replace(".u64 b", ".u32 b"), "0+8 8+4 12+4 16+8 24+8", id="a narrower argument"),
        pytest.param("", "none", id="no argument"),
    ],
)
def test_parameters_must_be_the_declared_and_the_two_hidden_ones(
    bundle: Path, tmp_path: Path, parameters: str, seen: str
) -> None:
    replace_cubin(bundle, "sm86", assembled(tmp_path, parameters))
    change_cubins(bundle, "sm86", **resources_of(bundle, "sm86"))
    (defect,) = expect(bundle, EntryAbiError)
    assert f"kernel parameters (offset, size) {seen};" in defect.cause
    assert defect.cause.endswith("make 0+8 8+8 16+4 24+8 32+8")


def test_a_declaration_that_the_cubin_does_not_have_is_found(bundle: Path) -> None:
    """The other way round: the cubins are good, the manifest claims an argument that is not passed."""
    change_manifest(bundle, lambda content: content["entries"][0]["arguments"][2].update(equal_to=1))
    expect(bundle, *[EntryAbiError] * 3)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(["another"], id="under another name"),
        pytest.param(["copy", "second"], id="beside another"),
    ],
)
def test_the_entry_function_must_be_the_one_of_the_manifest(bundle: Path, tmp_path: Path, entries: list[str]) -> None:
    text = ".version 8.6\n.target sm_86\n.address_size 64\n" + "\n".join(
        f".visible .entry {name}({RIGHT}) .reqntid 128 {{ ret; }}" for name in entries
    )
    replace_cubin(bundle, "sm86", assemble(text, tmp_path, target="sm_86").read_bytes())
    (defect,) = expect(bundle, EntryAbiError)
    assert all(name in defect.cause for name in entries)
    assert defect.cause.endswith("the manifest has `copy` alone")


def test_scratch_memory_is_refused(bundle: Path) -> None:
    change_cubins(bundle, "sm120", scratch=256)
    (defect,) = expect(bundle, ScratchError)
    assert defect.cause == "needs 256 bytes of scratch memory"
    assert "for sm120" in defect.where
    assert "leave this target out" in defect.remedy


@pytest.mark.parametrize(
    ("fields", "causes"),
    [
        pytest.param({"registers": 1}, ["the manifest has 1"], id="registers"),
        pytest.param({"local_bytes": 8}, ["local_bytes 0, the manifest has 8"], id="spilled registers"),
        pytest.param({"static_shared": 16}, ["static_shared 0, the manifest has 16"], id="static shared memory"),
        pytest.param({"threads": 64}, ["threads 128, the manifest has 64"], id="threads"),
        pytest.param({"threads": 2048}, ["the manifest has 2048", "2048 threads a block"], id="too many threads"),
        pytest.param(
            {"dynamic_shared": 99 * 1024 + 1},
            [f"{99 * 1024 + 1} bytes of dynamic and 0 of static shared memory a block; sm86 has {99 * 1024}"],
            id="too much shared memory",
        ),
        pytest.param({"dynamic_shared": -1}, ["-1 bytes of dynamic"], id="negative shared memory"),
    ],
)
def test_resources_must_be_those_of_the_cubin(bundle: Path, fields: dict[str, int], causes: list[str]) -> None:
    change_cubins(bundle, "sm86", **fields)
    defects = expect(bundle, *[ResourceMismatchError] * len(causes))
    for defect, cause in zip(defects, causes, strict=True):
        assert cause in defect.cause


def test_just_enough_shared_memory_is_good(bundle: Path) -> None:
    change_cubins(bundle, "sm86", dynamic_shared=99 * 1024)
    inspect_bundle(bundle)


@pytest.mark.parametrize(("dynamic", "fits"), [(98 * 1024, True), (98 * 1024 + 1, False), (99 * 1024, False)])
def test_static_and_dynamic_shared_memory_count_together(
    bundle: Path, tmp_path: Path, dynamic: int, *, fits: bool
) -> None:
    tile = ".shared .b8 tile[1024]; st.shared.u8 [tile], 0;"
    replace_cubin(bundle, "sm86", assembled(tmp_path, RIGHT, body=tile))
    change_cubins(bundle, "sm86", dynamic_shared=dynamic, **resources_of(bundle, "sm86"))
    if fits:
        inspect_bundle(bundle)
        return
    (defect,) = expect(bundle, ResourceMismatchError)
    assert defect.cause == (
        f"{dynamic} bytes of dynamic and 1024 of static shared memory a block; sm86 has {99 * 1024}"
    )


@pytest.mark.parametrize(
    ("threads", "registers", "fits"),
    [
        pytest.param(1024, 64, True, id="all that there are"),
        pytest.param(1024, 65, False, id="more"),
        pytest.param(512, 128, True, id="all for fewer threads"),
        pytest.param(512, 255, False, id="more for fewer threads"),
        pytest.param(256, 255, True, id="as many as a thread can have"),
    ],
)
def test_a_block_must_find_its_registers(
    bundle: Path, tmp_path: Path, threads: int, registers: int, *, fits: bool
) -> None:
    """The record of registers in a cubin has symbol and number."""
    cubin = assembled(tmp_path, RIGHT, threads=threads)
    (at,) = (found.start() for found in re.finditer(rb"\x04\x2f\x08\x00", cubin))
    replace_cubin(bundle, "sm86", cubin[: at + 8] + struct.pack("<I", registers) + cubin[at + 12 :])
    change_cubins(bundle, "sm86", **resources_of(bundle, "sm86"))
    if fits:
        inspect_bundle(bundle)
        return
    (defect,) = expect(bundle, ResourceMismatchError)
    assert defect.cause == f"{registers} registers a thread for {threads} threads a block; a block has 65536"
    assert "maxnreg" in defect.remedy


@pytest.mark.parametrize(
    "name", ["cubins/stale.cubin", "cubins/.hidden", "cubins/below/copy.cubin", "kernels.py", "cubins_000.cpp.orig"]
)
def test_a_file_that_the_manifest_does_not_name_is_found(bundle: Path, name: str) -> None:
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).touch()
    (defect,) = expect(bundle, UnexpectedFileError)
    assert defect.where == str(bundle / name)


def test_several_defects_are_all_listed(bundle: Path) -> None:
    cubin_of(bundle, "sm86").unlink()
    cubin_of(bundle, "sm89").write_bytes(b"")
    change_cubins(bundle, "sm120", scratch=1, registers=1)
    (bundle / "cubins" / "stale.cubin").touch()
    expect(bundle, MissingCubinError, CorruptCubinError, ResourceMismatchError, ScratchError, UnexpectedFileError)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b"{"), id="no JSON"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(
            lambda path: path.write_bytes(sealed({**json.loads(path.read_bytes()), "schema": 2})), id="schema"
        ),
        pytest.param(
            lambda path: path.write_bytes(sealed({**json.loads(path.read_bytes()), "x": 1})), id="unknown key"
        ),
        pytest.param(
            lambda path: path.write_bytes(sealed({**json.loads(path.read_bytes()), "tools": 1})), id="wrong type"
        ),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes().replace(b'"cubins/', b'"../../')), id="path traversal"
        ),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes().replace(b'"num_warps": 4', b'"num_warps": 8')), id="digest"
        ),
    ],
)
def test_a_bad_manifest_is_the_only_defect(bundle: Path, damage: Callable[[Path], Any]) -> None:
    """Nothing can be said of cubins that no manifest names."""
    before = (bundle / "bundle.json").read_bytes()
    damage(bundle / "bundle.json")
    assert not (bundle / "bundle.json").exists() or (bundle / "bundle.json").read_bytes() != before
    (defect,) = expect(bundle, ManifestError)
    assert defect.where == str(bundle / "bundle.json")


def test_a_file_outside_is_not_even_opened(bundle: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.cubin"
    shutil.copy(cubin_of(bundle, "sm86"), outside)
    change_cubins(bundle, "sm86", file="cubins/../../outside.cubin")
    (defect,) = expect(bundle, ManifestError)
    assert "must be a plain file name below cubins/" in defect.cause


@pytest.mark.parametrize("name", ["bundle.json", "cubins/{cubin}"])
@pytest.mark.parametrize("kind", ["pipe", "endless device"])
def test_what_is_no_file_is_not_waited_for(bundle: Path, name: str, kind: str) -> None:
    path = bundle / name.format(cubin=cubin_of(bundle, "sm86").name)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    (defect,) = expect(bundle, ManifestError if path.name == "bundle.json" else MissingCubinError)
    assert "cannot be read: is not a regular file" in defect.cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "is not JSON: maximum recursion depth", id="deep"),
        pytest.param(b'{"schema": ' + b"[" * 900 + b"]" * 900 + b"}", "has schema [[[[[[[...]]]]]]]", id="deep schema"),
        pytest.param(b"[" + b"[]," * 500_001 + b"[]]", "bytes and some 1000004 values; at most", id="many values"),
        pytest.param(b'{"schema": 1, "x": ' + b"1" * 5000 + b"}", "is not JSON: Exceeds the limit", id="a long number"),
        pytest.param(b'{"schema": 1e999}', "has schema inf; this", id="an infinite number"),
        pytest.param(b'{"schema": 1, "digest": "\\ud800"}', "entries: is missing", id="half a character"),
        pytest.param(b'"' + b"x" * (16 << 20) + b'"', "has 16777218 bytes", id="a long text"),
        pytest.param(b"\xff\xfe{}", "is not JSON: ", id="other encoding"),
    ],
)
def test_json_that_is_deep_or_huge_is_a_bad_manifest(text: bytes, cause: str) -> None:
    tracemalloc.start()
    with pytest.raises(ManifestError) as caught:
        Bundle.parse(text, "bundle.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cause in caught.value.cause
    assert len(str(caught.value)) < 3000
    assert peak < 1 << 25


def test_a_cubin_beyond_any_size_is_not_read(bundle: Path) -> None:
    with cubin_of(bundle, "sm86").open("ab") as file:
        file.truncate(MAX_CODE + 1)
    (defect,) = expect(bundle, MissingCubinError)
    assert f"cannot be read: it has more than {MAX_CODE} bytes" in defect.cause


def test_no_more_than_a_thousand_defects_are_listed(bundle: Path) -> None:
    for i in range(MOST_DEFECTS + 100):
        (bundle / f"stale{i}").touch()
    value, defects = collect_defects(check_bundle(bundle))
    assert (value, len(defects)) == (None, MOST_DEFECTS)


def test_a_library_alone_is_inspected_by_what_it_embeds(tiny_bundle: Path, tmp_path: Path) -> None:
    library = link_library(tiny_bundle, tmp_path / "libpkg.so")
    assert inspect_library(str(library)) == inspect_bundle(tiny_bundle)
    library = link_library(tiny_bundle, tmp_path / "libpkg.so", exports=[])
    with pytest.raises(ExportError):
        inspect_library(library)


# PTX


@pytest.fixture
def with_ptx(ptx_bundle: Path, tmp_path: Path) -> Path:
    """A bundle directory with PTX, to be damaged."""
    return Path(shutil.copytree(ptx_bundle, tmp_path / "bundle"))


def ptx_of(directory: Path) -> str:
    (path,) = (directory / "ptx").iterdir()
    return path.read_text()


def test_a_good_bundle_with_ptx_is_returned(ptx_bundle: Path) -> None:
    (entry,) = inspect_bundle(ptx_bundle).entries
    assert [code.label for code in entry.codes] == ["sm120", "sm89 PTX"]


def test_missing_ptx_is_named(with_ptx: Path) -> None:
    shutil.rmtree(with_ptx / "ptx")
    (defect,) = expect(with_ptx, MissingPtxError)
    assert defect.cause.startswith("ptx/copy.0.0.sm89.ptx cannot be read: No such file")


def test_ptx_that_the_manifest_does_not_name_is_found(with_ptx: Path) -> None:
    (with_ptx / "ptx" / "stale.ptx").touch()
    expect(with_ptx, UnexpectedFileError)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text.replace("add.s64", "sub.s64", 1), id="an instruction"),
        pytest.param(lambda text: text[:-1], id="the last byte cut off"),
        pytest.param(lambda text: text + "\0", id="a NUL appended"),
        pytest.param(lambda _: "", id="empty"),
    ],
)
def test_ptx_whose_bytes_have_changed_is_corrupt(with_ptx: Path, damage: Callable[[str], str]) -> None:
    good = ptx_of(with_ptx)
    assert damage(good) != good
    (with_ptx / "ptx" / "copy.0.0.sm89.ptx").write_text(damage(good))
    (defect,) = expect(with_ptx, CorruptPtxError)
    assert defect.where == f"{with_ptx}/ptx/copy.0.0.sm89.ptx: kernel `copy#0` for sm89 PTX"
    assert "with SHA-256" in defect.cause


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        pytest.param(lambda text: text[: len(text) // 2], "opens 1 braces and closes 0", id="truncated"),
        pytest.param(lambda text: text[:60], "does not begin with .version, .target and", id="truncated in the head"),
        pytest.param(lambda text: text + "\0", "is not text", id="its NUL inside"),
        pytest.param(lambda text: text.replace("ret;", "ret; // \xe9"), "is not text", id="beyond ASCII"),
        pytest.param(lambda _: "", "does not begin with .version", id="empty"),
    ],
)
def test_what_is_no_ptx_is_corrupt_though_its_digest_fits(
    with_ptx: Path, damage: Callable[[str], str], cause: str
) -> None:
    replace_ptx(with_ptx, damage(ptx_of(with_ptx)).encode("latin-1"))
    (defect,) = expect(with_ptx, CorruptPtxError)
    assert cause in defect.cause


def test_a_cubin_in_the_place_of_ptx_is_corrupt(with_ptx: Path) -> None:
    replace_ptx(with_ptx, cubin_of(with_ptx, "sm120").read_bytes())
    (defect,) = expect(with_ptx, CorruptPtxError)
    assert "is not text" in defect.cause


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        pytest.param("sm_89", "sm_90", "says .target sm_90, the manifest has sm_89", id="newer target"),
        pytest.param("sm_89", "sm_80", "says .target sm_80, the manifest has sm_89", id="older target"),
        pytest.param("sm_89", "sm_89a", "says .target sm_89a, the manifest has sm_89", id="architecture-specific"),
        pytest.param("sm_89", "sm_89, debug", "says .target sm_89, debug, the manifest has", id="for debugging"),
        pytest.param(".version 8.0", ".version 8.8", "says .version 8.8, the manifest has 8.0", id="newer version"),
    ],
)
def test_ptx_of_another_target_or_version_is_found(with_ptx: Path, old: str, new: str, cause: str) -> None:
    text = ptx_of(with_ptx)
    assert text.count(old) == 1
    replace_ptx(with_ptx, text.replace(old, new).encode())
    (defect,) = expect(with_ptx, FalsePtxError)
    assert cause in defect.cause


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        pytest.param(
            ".entry copy(", ".entry copied(", "entry functions ['copied'], the manifest has `copy`", id="name"
        ),
        pytest.param(
            ".visible .entry",
            ".entry other() { ret; }\n.entry",
            "entry functions ['other', 'copy']",
            id="two functions",
        ),
        pytest.param(".entry", ".func", "entry functions [], the manifest has `copy` alone", id="no entry function"),
        pytest.param(".u32 copy_param_2", ".u64 copy_param_2", "8 8 8 8 8 bytes; the declared", id="wider argument"),
        pytest.param(".u32 copy_param_2", ".u32 x, .param .u32 copy_param_2", "8 8 4 4 8 8 bytes", id="one more"),
    ],
)
def test_the_entry_function_of_ptx_must_be_the_declared_one(with_ptx: Path, old: str, new: str, cause: str) -> None:
    text = ptx_of(with_ptx)
    assert text.count(old) == 1
    replace_ptx(with_ptx, text.replace(old, new).encode())
    (defect,) = expect(with_ptx, EntryAbiError)
    assert cause in defect.cause


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        pytest.param({"threads": 64}, "threads 128, the manifest has 64", id="threads"),
        pytest.param({"dynamic_shared": 99 * 1024 + 1}, f"sm89 has {99 * 1024}", id="too much shared memory"),
        pytest.param({"dynamic_shared": -1}, "-1 bytes of dynamic", id="negative shared memory"),
    ],
)
def test_what_a_launch_of_ptx_asks_for_is_checked(with_ptx: Path, fields: dict[str, int], cause: str) -> None:
    change_ptx(with_ptx, **fields)
    (defect,) = expect(with_ptx, ResourceMismatchError)
    assert cause in defect.cause


def test_shared_memory_of_fixed_size_in_ptx_is_found(with_ptx: Path) -> None:
    text = ptx_of(with_ptx).replace(".visible .entry", ".shared .align 16 .b8 tile[65536];\n.visible .entry")
    replace_ptx(with_ptx, text.encode())
    (defect,) = expect(with_ptx, ResourceMismatchError)
    assert defect.cause == "shared memory of fixed size, of which the manifest has none"


def test_scratch_memory_of_ptx_is_refused(with_ptx: Path) -> None:
    change_ptx(with_ptx, scratch=256)
    (defect,) = expect(with_ptx, ScratchError)
    assert "for sm89 PTX" in defect.where


def test_a_library_embeds_ptx_with_a_nul_behind_it(ptx_bundle: Path, tmp_path: Path) -> None:
    inspect_bundle(ptx_bundle, plugin=link_library(ptx_bundle, tmp_path / "lib.so"))
    section = embedded_code(ptx_bundle)
    text = ptx_of(ptx_bundle).encode()
    end = section.index(text) + len(text)
    assert section[end] == 0
    without = section[:end] + b"\n" + section[end + 1 :]
    library = link_library(ptx_bundle, tmp_path / "without.so", cubins=without)
    (defect,) = expect(ptx_bundle, CorruptPtxError, library=library)
    assert defect.cause == "no NUL follows it, which ends it for the driver"
    changed = section.replace(b"add.s64", b"sub.s64", 1)
    library = link_library(ptx_bundle, tmp_path / "changed.so", cubins=changed)
    (defect,) = expect(ptx_bundle, CorruptPtxError, library=library)
    assert defect.where == f"{library}: kernel `copy#0` for sm89 PTX"


# Libraries


@pytest.fixture(scope="module")
def library(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good library around the bundle."""
    return link_library(tiny_bundle, tmp_path_factory.mktemp("good") / "libpkg.so")


def test_a_good_library_is_accepted(tiny_bundle: Path, library: Path) -> None:
    bundle = inspect_bundle(tiny_bundle, plugin=library)
    with library.open("rb") as stream:
        assert collect(check_library(stream, "libpkg.so")) == ([], bundle)


@pytest.mark.parametrize("option", ["--strip-all", "--strip-debug", "--strip-unneeded"])
def test_a_stripped_library_is_accepted(tiny_bundle: Path, library: Path, tmp_path: Path, option: str) -> None:
    run(tool("strip"), option, "-o", tmp_path / "libpkg.so", library)
    assert (tmp_path / "libpkg.so").stat().st_size < library.stat().st_size
    inspect_bundle(tiny_bundle, plugin=tmp_path / "libpkg.so")


def test_the_examples_library_is_accepted_stripped_too(
    example_output: Path, example_library: Path, tmp_path: Path
) -> None:
    """What the launcher, CMake and the hook's own steps make."""
    bundle = inspect_bundle(example_output / "bundle", plugin=example_library)
    assert len(bundle.entries) > 1
    run(tool("strip"), "-o", tmp_path / "stripped.so", example_library)
    assert inspect_bundle(example_output / "bundle", plugin=tmp_path / "stripped.so") == bundle


def test_a_missing_library_is_named(tiny_bundle: Path, tmp_path: Path) -> None:
    (defect,) = expect(tiny_bundle, MissingPluginError, library=tmp_path / "lib.so")
    assert defect.cause == "cannot be read: No such file or directory"


def test_the_library_of_another_bundle_is_found(bundle: Path, library: Path) -> None:
    """It is sound in itself: the one defect is that it is another."""
    change_manifest(bundle, lambda content: content.update(minimum_driver="999.0"))
    (defect,) = expect(bundle, BundleMismatchError, library=library)
    assert "is not the one beside it" in defect.cause


def test_a_library_without_a_bundle_is_found(tiny_bundle: Path, tmp_path: Path) -> None:
    (defect,) = expect(tiny_bundle, LibraryError, library=link_library(None, tmp_path / "lib.so"))
    assert "embeds no bundle" in defect.cause
    assert "tensoracle_add_cubin_plugin" in defect.remedy


@pytest.mark.parametrize("section", ["manifest", "cubins"])
def test_a_library_without_one_of_its_sections_is_found(
    tiny_bundle: Path, library: Path, tmp_path: Path, section: str
) -> None:
    run(tool("objcopy"), "--remove-section", f".tensoracle.{section}", library, tmp_path / "lib.so")
    expect(tiny_bundle, LibraryError, library=tmp_path / "lib.so")


def test_cubins_that_were_changed_inside_a_library_are_corrupt(tiny_bundle: Path, tmp_path: Path) -> None:
    cubins = bytearray(embedded_code(tiny_bundle))
    cubins[1000] ^= 1
    library = link_library(tiny_bundle, tmp_path / "lib.so", cubins=bytes(cubins))
    (defect,) = expect(tiny_bundle, CorruptCubinError, library=library)
    assert defect.where == f"{library}: kernel `copy#0` for sm86"


def test_cubins_that_are_cut_off_inside_a_library_are_found(tiny_bundle: Path, tmp_path: Path) -> None:
    cubins = embedded_code(tiny_bundle)[:-100]
    library = link_library(tiny_bundle, tmp_path / "lib.so", cubins=cubins)
    first, second = expect(tiny_bundle, CorruptCubinError, BundleMismatchError, library=library)
    assert "for sm120" in first.where
    assert "its cubins end at" in second.cause


def test_bytes_behind_the_cubins_of_a_library_are_found(tiny_bundle: Path, tmp_path: Path) -> None:
    cubins = embedded_code(tiny_bundle) + bytes(16)
    expect(tiny_bundle, BundleMismatchError, library=link_library(tiny_bundle, tmp_path / "lib.so", cubins=cubins))


def test_the_embedded_manifest_is_checked_for_itself(tiny_bundle: Path, tmp_path: Path) -> None:
    library = link_library(tiny_bundle, tmp_path / "lib.so", manifest=b"{}")
    _, manifest = expect(tiny_bundle, BundleMismatchError, ManifestError, library=library)
    assert manifest.where == f"{library}: .tensoracle.manifest"
    with library.open("rb") as stream:
        assert [type(defect) for defect in collect(check_library(stream, "lib.so"))[0]] == [ManifestError]


def test_an_embedded_cubin_of_another_sm_is_found(bundle: Path, tmp_path: Path) -> None:
    """What the wheel's inspection sees, where there are no cubin files."""
    replace_cubin(bundle, "sm86", cubin_of(bundle, "sm89").read_bytes())
    with link_library(bundle, tmp_path / "lib.so").open("rb") as stream:
        defects, _ = collect(check_library(stream, "lib.so"))
    assert [type(defect) for defect in defects] == [FalseSmError]


@pytest.mark.parametrize(
    ("exports", "causes"),
    [
        pytest.param(["getCreators"], ["does not export `setLoggerFinder`"], id="one missing"),
        pytest.param([], ["does not export `getCreators`", "does not export `setLoggerFinder`"], id="both missing"),
        pytest.param(
            ["getCreators", "setLoggerFinder", "initLibNvInferPlugins"],
            ["exports 1 more than getCreators and setLoggerFinder: initLibNvInferPlugins"],
            id="one more",
        ),
    ],
)
def test_a_library_exports_two_functions_and_nothing_else(
    tiny_bundle: Path, tmp_path: Path, exports: list[str], causes: list[str]
) -> None:
    library = link_library(tiny_bundle, tmp_path / "lib.so", exports=exports)
    defects = expect(tiny_bundle, *[ExportError] * len(causes), library=library)
    for defect, cause in zip(defects, causes, strict=True):
        assert cause in defect.cause


@pytest.mark.parametrize(
    "soname",
    [
        "libcudart.so.12",
        "libcuda.so.1",
        "libnvinfer.so.10",
        "libnvrtc.so.12",
        "libcublasLt.so.12",
        "libcutensor.so.2",
        "libnppc.so.12",
        "libtensorrt_rtx.so.1",
    ],
)
def test_a_library_needs_nothing_of_cuda_or_tensorrt(tiny_bundle: Path, tmp_path: Path, soname: str) -> None:
    options: list[str | Path] = ["-Wl,--no-as-needed", link_stub(tmp_path, soname)]
    library = link_library(tiny_bundle, tmp_path / "lib.so", options=options)
    (defect,) = expect(tiny_bundle, DependencyError, library=library)
    assert defect.cause == f"needs {soname} at load time"


def test_a_library_may_need_others(tiny_bundle: Path, tmp_path: Path) -> None:
    options: list[str | Path] = ["-Wl,--no-as-needed", link_stub(tmp_path, "libz.so.1"), "-lm"]
    inspect_bundle(tiny_bundle, plugin=link_library(tiny_bundle, tmp_path / "lib.so", options=options))


@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"], ids=["RUNPATH", "RPATH"])
def test_a_library_carries_no_search_path(tiny_bundle: Path, tmp_path: Path, kind: str) -> None:
    options = [f"-Wl,{kind}", "-Wl,-rpath,/usr/local/cuda/lib64"]
    library = link_library(tiny_bundle, tmp_path / "lib.so", options=options)
    (defect,) = expect(tiny_bundle, DependencyError, library=library)
    assert defect.cause == "carries the search path /usr/local/cuda/lib64"


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        pytest.param(lambda _: b"no library", "not a readable ELF", id="text"),
        pytest.param(lambda _: b"", "ELF", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], "ELF", id="cut off"),
        pytest.param(lambda data: data[:18] + b"\xb7\0" + data[20:], "it is EM_AARCH64 ET_DYN", id="another machine"),
        pytest.param(lambda data: data[:16] + b"\2\0" + data[18:], "it is EM_X86_64 ET_EXEC", id="a program"),
    ],
)
def test_what_is_no_library_is_found(
    tiny_bundle: Path, library: Path, tmp_path: Path, damage: Callable[[bytes], bytes], cause: str
) -> None:
    (tmp_path / "lib.so").write_bytes(damage(library.read_bytes()))
    (defect,) = expect(tiny_bundle, LibraryError, library=tmp_path / "lib.so")
    assert cause in defect.cause


def test_a_cubin_is_no_library(tiny_bundle: Path) -> None:
    (defect,) = expect(tiny_bundle, LibraryError, library=cubin_of(tiny_bundle, "sm86"))
    assert "it is EM_CUDA" in defect.cause


def test_sections_that_claim_to_be_huge_are_read_as_far_as_they_go(bundle: Path, tmp_path: Path) -> None:
    """Three cubins of as many bytes as are read, in a section of a petabyte."""
    change_cubins(bundle, "sm86", size=MAX_CODE)
    library = link_library(bundle, tmp_path / "lib.so")
    library.write_bytes(change_section(library.read_bytes(), ".tensoracle.cubins", size=1 << 51))
    with library.open("rb") as stream:
        defects, _ = collect(check_library(stream, "lib.so"))
    assert [type(defect) for defect in defects] == [*[CorruptCubinError] * 3, BundleMismatchError]


def test_a_manifest_that_claims_to_be_huge_is_not_read(tiny_bundle: Path, library: Path, tmp_path: Path) -> None:
    claimed = change_section(library.read_bytes(), ".tensoracle.manifest", size=1 << 50)
    (tmp_path / "lib.so").write_bytes(claimed)
    (defect,) = expect(tiny_bundle, LibraryError, library=tmp_path / "lib.so")
    assert f"of {1 << 50}" in defect.cause


# Wheels


def test_the_examples_wheel_is_accepted(example_wheel: Path) -> None:
    bundles = inspect_wheel(example_wheel, plugin="example_plugin/libexample_plugin.so")
    assert bundles == inspect_wheel(str(example_wheel))
    assert list(bundles) == ["example_plugin/libexample_plugin.so"]


def test_no_file_stays_open_after_a_defect(tiny_bundle: Path, tmp_path: Path) -> None:
    library = link_library(tiny_bundle, tmp_path / "lib.so", exports=[])
    with pytest.raises(ExportError) as caught:
        inspect_bundle(tiny_bundle, plugin=library)
    still_open = [link.resolve() for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert library.resolve() not in still_open
    assert caught.value


def test_manifest_lies_beside_its_library() -> None:
    assert manifest_name("pkg/libx.so") == "pkg/libx.bundle.json"
