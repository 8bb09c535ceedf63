"""Wheels are inspected as archives that may be hostile, without being unpacked."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from helpers.bundles import change_manifest, collect
from helpers.libraries import link_library
from helpers.wheels import DIST_INFO, change_header, record_of_files, write_wheel

from hatch_tensoracle import Bundle, inspect_wheel
from hatch_tensoracle.errors import (
    BundleError,
    BundleMismatchError,
    ExportError,
    LibraryError,
    ManifestError,
    MissingPluginError,
    TagError,
    WheelError,
)
from hatch_tensoracle.inspection import MOST_DEFECTS, check_wheel
from hatch_tensoracle.inspection import collect as collect_defects
from hatch_tensoracle.wheel import Wheel


@pytest.fixture(scope="module")
def files(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The files of a good wheel, apart from its metadata."""
    library = link_library(tiny_bundle, tmp_path_factory.mktemp("library") / "libpkg.so")
    return {
        "pkg/__init__.py": b"",
        "pkg/libpkg.so": library.read_bytes(),
        "pkg/libpkg.bundle.json": (tiny_bundle / "bundle.json").read_bytes(),
    }


def expect(wheel: Path, *errors: type[BundleError], plugin: str | None = None) -> list[BundleError]:
    """Check that the defects are exactly these, and that inspect_wheel raises the first."""
    defects, _ = collect(check_wheel(wheel, plugin))
    assert [type(defect) for defect in defects] == list(errors)
    with pytest.raises(BundleError) as caught:
        inspect_wheel(wheel, plugin=plugin)
    assert str(caught.value) == str(defects[0])
    assert all(str(wheel) in defect.where for defect in defects)
    return defects


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("plugin", [None, "pkg/libpkg.so"], ids=["found", "named"])
def test_a_good_wheel_is_accepted(
    tmp_path: Path, files: Mapping[str, bytes], plugin: str | None, compression: int
) -> None:
    wheel = write_wheel(tmp_path, files, compression=compression)
    bundles = inspect_wheel(wheel, plugin=plugin)
    assert bundles == {"pkg/libpkg.so": Bundle.parse(files["pkg/libpkg.bundle.json"], "")}
    assert collect(check_wheel(wheel, plugin)) == ([], bundles)


def test_nothing_is_written_beside_the_wheel(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    inspect_wheel(wheel)
    assert list(tmp_path.iterdir()) == [wheel]


# The archive


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"no archive", id="text"),
        pytest.param(lambda data: data[:-30], id="cut off"),
        pytest.param(lambda data: data[100:], id="without its beginning"),
    ],
)
def test_what_is_no_archive_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], damage: Callable[[bytes], bytes]
) -> None:
    wheel = write_wheel(tmp_path, files)
    wheel.write_bytes(damage(wheel.read_bytes()))
    assert isinstance(expect_first(wheel), WheelError)


def expect_first(wheel: Path) -> BundleError:
    with pytest.raises(BundleError) as caught:
        inspect_wheel(wheel)
    return caught.value


def test_a_missing_wheel_is_named(tmp_path: Path) -> None:
    (defect,) = expect(tmp_path / "pkg-1.0-py3-none-any.whl", WheelError)
    assert "No such file" in defect.cause


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../outside.py", id="traversal"),
        pytest.param("pkg/../../outside.py", id="traversal inside"),
        pytest.param("/etc/outside.py", id="absolute"),
        pytest.param("//server/outside.py", id="absolute, twice"),
        pytest.param("..\\outside.py", id="backslash"),
        pytest.param("C:outside.py", id="drive letter"),
        pytest.param("C:/outside.py", id="drive letter and slash"),
        pytest.param("pkg/./__init__.py", id="a dot between"),
        pytest.param("pkg//__init__.py", id="two slashes"),
        pytest.param("./pkg/__init__.py", id="a dot before"),
        pytest.param(".", id="a dot alone"),
        pytest.param("../", id="directory outside"),
        pytest.param("/", id="root"),
    ],
)
def test_a_name_that_is_no_plain_path_inside_is_refused(tmp_path: Path, files: Mapping[str, bytes], name: str) -> None:
    """Even where RECORD has it: an installer would write elsewhere, or over another file of the wheel."""
    (defect,) = expect(write_wheel(tmp_path, {**files, name: b"pass\n"}), WheelError)
    assert name.replace("\\", "\\\\") in defect.where
    assert "is no relative path inside the wheel" in defect.cause or "is not in its plain form" in defect.cause


def test_a_name_with_a_nul_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """Python's zipfile cuts it off there, other tools do not."""
    wheel = write_wheel(tmp_path, {**files, "pkg/module.py.so": b""})
    wheel.write_bytes(wheel.read_bytes().replace(b"pkg/module.py.so", b"pkg/module.py\0so"))
    (defect,) = expect(wheel, WheelError)
    assert defect.cause == "is no relative path inside the wheel"


def test_a_member_without_a_name_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive, archive.open(zipfile.ZipInfo(""), "w"):
        pass
    (defect,) = expect(wheel, WheelError)
    assert "''" in defect.where


def test_a_file_that_stands_there_twice_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """Tools differ in which of the two they take."""
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("pkg/libpkg.so", b"another")
    (defect,) = expect(wheel, WheelError)
    assert defect.cause == "stands in the archive twice"
    assert "pkg/libpkg.so" in defect.where


def test_directories_are_no_files(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/", b"")
    inspect_wheel(wheel)


def test_an_encrypted_file_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    change_header(wheel, "pkg/libpkg.so", "flags", 1)
    (defect,) = expect(wheel, WheelError)
    assert defect.cause == "is encrypted"


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "LZMA"])
def test_a_compression_that_no_wheel_has_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], compression: int
) -> None:
    """Python unpacks it by whole chunks, of which one can be gigabytes."""
    expect(write_wheel(tmp_path, files, compression=compression), WheelError)


def test_an_unknown_compression_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    change_header(wheel, "pkg/libpkg.so", "method", 99)
    (defect,) = expect(wheel, WheelError)
    assert "method 99" in defect.cause


@pytest.mark.parametrize("size", [0, 10, 2**31], ids=["nothing", "less", "more"])
def test_a_size_that_is_not_the_files_is_refused(tmp_path: Path, files: Mapping[str, bytes], size: int) -> None:
    wheel = write_wheel(tmp_path, files)
    change_header(wheel, "pkg/libpkg.so", "size", size)
    assert isinstance(expect_first(wheel), WheelError)


def test_a_file_beyond_any_size_is_not_unpacked(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """With the extra field of ZIP64, a size of 8 EiB."""
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive:
        huge = zipfile.ZipInfo("pkg/huge.bin")
        archive.writestr(huge, b"small")
        huge.file_size = 1 << 62
    (defect,) = expect(wheel, WheelError)
    assert f"says it has {1 << 62} bytes" in defect.cause


def test_a_bomb_is_read_in_little_memory(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """An eighth of a gigabyte of zeros, that takes an eighth of a megabyte in the wheel."""
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("pkg/zeros", "w") as member:
        for _ in range(128):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    defects, _ = collect(check_wheel(wheel))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [defect.where for defect in defects] == [f"{wheel}: pkg/zeros"]
    assert peak < 1 << 25


def test_a_greater_bomb_is_not_unpacked_at_all(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """More than a hundred times the archive, in one file or in many."""
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            with archive.open(f"pkg/zeros{i}", "w") as member:
                for _ in range(32):
                    member.write(bytes(1 << 20))
    (defect,) = expect(wheel, WheelError)
    assert f"unpacks to {(160 << 20) + sum(map(len, files.values()))}"[:12] in defect.cause
    assert (
        f"of {wheel.stat().st_size} bytes at most {(128 << 20) + 100 * wheel.stat().st_size} are read" in defect.cause
    )


@pytest.mark.parametrize(
    ("beside", "limit"), [("pkg/libpkg.bundle.json", 16), (f"{DIST_INFO}/RECORD", 16), (f"{DIST_INFO}/WHEEL", 1)]
)
def test_a_text_of_any_size_is_not_read_whole(
    tmp_path: Path, files: Mapping[str, bytes], beside: str, limit: int
) -> None:
    """These are held in memory, so they have a limit of their own."""
    wheel = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    small = {f"{DIST_INFO}/RECORD": b"\n", f"{DIST_INFO}/WHEEL": b"Tag: py3-none-linux_x86_64\n", **files}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in small.items():
            with archive.open(name, "w") as member:
                member.write(data)
                for _ in range(limit if name == beside else 0):
                    member.write(b" " * (1 << 20))
    defects, _ = collect(check_wheel(wheel))
    size = len(small[beside]) + (limit << 20)
    assert f"{wheel}: {beside}: has {size} bytes, more than {limit << 20}" in [str(defect) for defect in defects]


def test_any_changed_bytes_give_a_defect_or_a_good_wheel(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """Never an exception of zipfile, zlib, csv or Python."""
    import random

    chance = random.Random(0)  # noqa: S311 - the same every time
    small = {**files, "pkg/libpkg.so": files["pkg/libpkg.so"][:2000]}
    data = write_wheel(tmp_path / "good", small).read_bytes()
    headers = [i for i in range(len(data)) if data[i : i + 2] == b"PK"]
    wheel = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    kinds = set()
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            place = chance.choice(
                (chance.randrange(len(data)), min(chance.choice(headers) + chance.randrange(60), len(data) - 1))
            )
            damaged[place] = chance.choice((0, 1, 0x80, 0xFF, chance.randrange(256)))
        wheel.write_bytes(damaged)
        kinds |= {type(defect) for defect in collect(check_wheel(wheel))[0]}
    assert kinds >= {WheelError, LibraryError}


def test_a_local_header_beyond_the_end_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    change_header(wheel, "pkg/libpkg.so", "offset", wheel.stat().st_size - 20)
    assert isinstance(expect_first(wheel), WheelError)


# RECORD


def test_a_file_that_record_does_not_name_is_found(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/smuggled.py", b"")
    (defect,) = expect(wheel, WheelError)
    assert (defect.where, defect.cause) == (f"{wheel}: pkg/smuggled.py", "RECORD does not name it")


def rewritten(tmp_path: Path, files: Mapping[str, bytes], change: Callable[[str], str]) -> Path:
    """Write the wheel with another RECORD than its files have."""
    wheel = write_wheel(tmp_path / "good", files)
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read(f"{DIST_INFO}/RECORD").decode()
    changed = change(record)
    assert changed != record
    return write_wheel(tmp_path, files, record=changed)


@pytest.mark.parametrize(
    ("change", "name", "cause"),
    [
        pytest.param(
            lambda record: record + "pkg/missing.py,sha256=AAAA,4\n",
            "pkg/missing.py",
            "RECORD names it, but it is not there",
            id="a file that is missing",
        ),
        pytest.param(
            lambda record: record.replace("pkg/__init__.py,sha256=4", "pkg/__init__.py,sha256=5"),
            "pkg/__init__.py",
            "0 bytes with sha256 47DEQ",
            id="another digest",
        ),
        pytest.param(
            lambda record: record.replace(
                "pkg/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
                "pkg/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,1",
            ),
            "pkg/__init__.py",
            "RECORD has 1 with",
            id="another size",
        ),
        pytest.param(
            lambda record: record.replace(
                "pkg/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
                "pkg/__init__.py,md5=1B2M2Y8AsgTpgAmY7PhCfg",
            ),
            "pkg/__init__.py",
            "RECORD has no secure digest of it",
            id="an insecure digest",
        ),
        pytest.param(
            lambda record: record.replace(
                "pkg/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0", "pkg/__init__.py,,"
            ),
            "pkg/__init__.py",
            "RECORD has no secure digest of it",
            id="no digest",
        ),
        pytest.param(
            lambda record: record + "pkg/__init__.py,sha256=AAAA,0\n",
            "pkg/__init__.py",
            "RECORD names it twice",
            id="a file twice",
        ),
        pytest.param(
            lambda record: record.replace("pkg/__init__.py,", "pkg/__init__.py;"),
            "pkg/__init__.py",
            "RECORD does not name it",
            id="a row of other form",
        ),
    ],
)
def test_record_must_be_that_of_the_files(
    tmp_path: Path, files: Mapping[str, bytes], change: Callable[[str], str], name: str, cause: str
) -> None:
    (defect,) = expect(rewritten(tmp_path, files, change), WheelError)
    assert defect.where.endswith(f": {name}")
    assert cause in defect.cause


def test_longer_digests_are_accepted(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    import base64
    import hashlib

    digest = base64.urlsafe_b64encode(hashlib.sha512(b"").digest()).decode().rstrip("=")

    def change(record: str) -> str:
        row = next(row for row in record.splitlines() if row.startswith("pkg/__init__.py"))
        return record.replace(row, f"pkg/__init__.py,sha512={digest},0")

    inspect_wheel(rewritten(tmp_path, files, change))


@pytest.mark.parametrize(
    "record",
    [
        pytest.param("a,b\0c,d\n", id="with a NUL"),
        pytest.param('"' + "x" * 200_000 + '",,\n', id="with a field of any length"),
        pytest.param('"\n', id="with an open quote"),
    ],
)
def test_a_record_that_is_none_is_refused(tmp_path: Path, files: Mapping[str, bytes], record: str) -> None:
    assert isinstance(expect_first(write_wheel(tmp_path, files, record=record)), WheelError)


def test_a_record_of_millions_of_files_is_read_in_little_memory(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    """Its rows are not kept, and no more defects are made than are listed."""
    wheel = write_wheel(tmp_path, files, record="a,,\n" * 1_000_000)
    tracemalloc.start()
    value, defects = collect_defects(check_wheel(wheel))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (value, len(defects)) == (None, MOST_DEFECTS)
    assert peak < 1 << 26


@pytest.mark.parametrize("name", ["RECORD", "WHEEL"])
@pytest.mark.parametrize("count", [0, 2])
def test_metadata_must_be_there_once(tmp_path: Path, files: Mapping[str, bytes], name: str, count: int) -> None:
    wheel = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    content = {f"{DIST_INFO}/WHEEL": b"Tag: py3-none-linux_x86_64\n", **files}
    for i in range(count):
        content[f"{'pkg' if i else 'other'}-1.0.dist-info/{name}"] = content.pop(f"{DIST_INFO}/{name}", b"")
    if count == 0:
        content.pop(f"{DIST_INFO}/{name}", None)
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, data in content.items():
            archive.writestr(member, data)
        if name != "RECORD":
            archive.writestr(f"{DIST_INFO}/RECORD", record_of_files(content))
    defect = expect_first(wheel)
    assert isinstance(defect, WheelError)
    assert name in defect.cause


def test_metadata_of_a_package_that_was_copied_in_is_left_alone(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    vendored = {f"pkg/_vendor/other-2.0.dist-info/{name}": b"" for name in ("RECORD", "WHEEL")}
    inspect_wheel(write_wheel(tmp_path, {**files, **vendored}))


def test_signatures_of_record_are_not_in_it(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(f"{DIST_INFO}/RECORD.jws", b"{}")
    inspect_wheel(wheel)


# Tags


@pytest.mark.parametrize(
    "tag", ["py3-none-linux_x86_64", "py3-none-manylinux_2_34_x86_64", "cp311-cp311-manylinux2014_x86_64"]
)
def test_a_tag_for_linux_on_x86_64_is_accepted(tmp_path: Path, files: Mapping[str, bytes], tag: str) -> None:
    inspect_wheel(write_wheel(tmp_path, files, tag=tag))


def test_several_platforms_may_stand_in_one_name(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    tags = ["py3-none-manylinux_2_17_x86_64", "py3-none-manylinux2014_x86_64"]
    written = "\nTag: ".join(tags)
    inspect_wheel(
        write_wheel(tmp_path, files, tag="py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64", written_tag=written)
    )


@pytest.mark.parametrize(
    "tag",
    [
        pytest.param("py3-none-any", id="any"),
        pytest.param("py3-none-win_amd64", id="Windows"),
        pytest.param("py3-none-manylinux_2_34_aarch64", id="ARM"),
        pytest.param("py3-none-musllinux_1_2_x86_64", id="musl"),
        pytest.param("py3-none-macosx_11_0_x86_64", id="macOS"),
    ],
)
def test_a_tag_that_does_not_fit_the_library_is_found(tmp_path: Path, files: Mapping[str, bytes], tag: str) -> None:
    (defect,) = expect(write_wheel(tmp_path, files, tag=tag), TagError)
    assert f"tag {tag}, but pkg/libpkg.so is a library for Linux x86_64" in defect.cause


@pytest.mark.parametrize("tag", ["py3-none-linux_x86_64", "py3-none-manylinux_2_34_x86_64"])
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        pytest.param((18, b"\xb7\0"), "machine 183 of class 2", id="aarch64"),
        pytest.param((18, b"\3\0"), "machine 3 of class 2", id="i386"),
        pytest.param((4, b"\1"), "machine 62 of class 1", id="x32"),
    ],
)
def test_a_library_for_another_processor_beside_the_plugin_is_found(
    tmp_path: Path, files: Mapping[str, bytes], tag: str, change: tuple[int, bytes], seen: str
) -> None:
    helper = bytearray(files["pkg/libpkg.so"])
    at, value = change
    helper[at : at + len(value)] = value
    wheel = write_wheel(tmp_path, {**files, "pkg/libhelper.so": bytes(helper)}, tag=tag)
    (defect,) = expect(wheel, TagError)
    assert defect.cause == f"is named for {tag}, but pkg/libhelper.so is for ELF {seen}, not x86-64"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param((16, b"\2\0"), "is not a shared object for x86-64: it is EM_X86_64 ET_EXEC", id="a program"),
        pytest.param((32, bytes(8)), "is a damaged ELF file", id="damaged"),
    ],
)
def test_what_cannot_be_compared_with_a_manylinux_tag_is_found(
    tmp_path: Path, files: Mapping[str, bytes], change: tuple[int, bytes], problem: str
) -> None:
    helper = bytearray(files["pkg/libpkg.so"])
    at, value = change
    helper[at : at + len(value)] = value
    tag = "py3-none-manylinux_2_34_x86_64"
    defects, _ = collect(
        check_wheel(write_wheel(tmp_path, {**files, "pkg/tool": bytes(helper)}, tag=tag), "pkg/libpkg.so")
    )
    assert [type(defect) for defect in defects] == [TagError]
    assert defects[0].cause.startswith(f"tag {tag}, but pkg/tool {problem}")


def test_a_wheel_without_a_library_may_have_any_tag_but_has_no_plugin(tmp_path: Path) -> None:
    expect(write_wheel(tmp_path, {"pkg/__init__.py": b""}, tag="py3-none-any"), MissingPluginError)


def test_name_and_wheel_file_must_say_the_same_tag(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files, written_tag="py3-none-any")
    (defect,) = expect(wheel, TagError)
    assert defect.cause == "is named for py3-none-linux_x86_64, its WHEEL says py3-none-any"


@pytest.mark.parametrize("name", ["pkg.whl", "pkg-1.0.whl", "pkg-1.0-py3-none-linux_x86_64-more-and-more.whl"])
def test_a_name_that_is_no_wheels_is_refused(tmp_path: Path, files: Mapping[str, bytes], name: str) -> None:
    wheel = write_wheel(tmp_path, files).rename(tmp_path / name)
    (defect,) = expect(wheel, WheelError)
    assert "is not named like a wheel" in defect.cause


def test_a_build_number_in_the_name_is_no_tag(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, files).rename(tmp_path / "pkg-1.0-7-py3-none-linux_x86_64.whl")
    inspect_wheel(wheel)


# Plugins


def test_a_wheel_without_a_plugin_is_found(tmp_path: Path) -> None:
    """A library that embeds no bundle is none of ours."""
    other = link_library(None, tmp_path / "other.so").read_bytes()
    (defect,) = expect(write_wheel(tmp_path, {"pkg/other.so": other}), MissingPluginError)
    assert defect.cause == "does not hold a library that embeds a bundle"


def test_a_plugin_that_is_not_there_is_named(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    (defect,) = expect(write_wheel(tmp_path, files), MissingPluginError, plugin="pkg/libother.so")
    assert defect.cause == "does not hold `pkg/libother.so`"


def test_a_plugin_that_is_no_library_is_found(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    changed = {**files, "pkg/libpkg.so": b"text"}
    expect(write_wheel(tmp_path, changed), LibraryError)
    expect(write_wheel(tmp_path, changed), LibraryError, plugin="pkg/libpkg.so")


@pytest.mark.parametrize(
    ("second", "error"),
    [
        pytest.param({}, MissingPluginError, id="missing"),
        pytest.param({"pkg/more/libsecond.so": b"\x7fELL"}, LibraryError, id="damaged in its first bytes"),
    ],
)
def test_what_a_manifest_promises_is_looked_for_beside_it(
    tmp_path: Path, files: Mapping[str, bytes], second: Mapping[str, bytes], error: type[BundleError]
) -> None:
    manifest = {"pkg/more/libsecond.bundle.json": files["pkg/libpkg.bundle.json"]}
    expect(write_wheel(tmp_path, {**files, **manifest, **second}), error)


def test_every_plugin_of_a_wheel_is_checked(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    second = {
        "pkg/more/libsecond.so": files["pkg/libpkg.so"],
        "pkg/more/libsecond.bundle.json": files["pkg/libpkg.bundle.json"],
    }
    wheel = write_wheel(tmp_path, {**files, **second})
    assert list(inspect_wheel(wheel)) == ["pkg/libpkg.so", "pkg/more/libsecond.so"]
    assert list(inspect_wheel(wheel, plugin="pkg/more/libsecond.so")) == ["pkg/more/libsecond.so"]


@pytest.mark.parametrize("name", ["pkg/lib{}.bundle.json", "pkg/lib{}.so"], ids=["promised", "found"])
def test_a_wheel_of_any_number_of_plugins_is_refused(tmp_path: Path, files: Mapping[str, bytes], name: str) -> None:
    """Each would be open, as a file or in memory."""
    data = files[name.format("pkg")]
    wheel = write_wheel(tmp_path, {**files, **{name.format(i): data for i in range(64)}})
    (defect,) = expect(wheel, WheelError)
    assert defect.cause == "has more than 64 plugin libraries"


def test_the_defect_of_one_plugin_does_not_hide_the_other(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    wheel = write_wheel(tmp_path, {**files, "pkg/libsecond.so": files["pkg/libpkg.so"]})
    defects, bundles = collect(check_wheel(wheel))
    assert [type(defect) for defect in defects] == [ManifestError]
    assert list(bundles) == ["pkg/libpkg.so"]
    inspect_wheel(wheel, plugin="pkg/libpkg.so")


@pytest.mark.parametrize("plugin", [None, "pkg/libpkg.so"], ids=["found", "named"])
def test_the_manifest_beside_a_library_must_be_there(
    tmp_path: Path, files: Mapping[str, bytes], plugin: str | None
) -> None:
    changed = {name: data for name, data in files.items() if name != "pkg/libpkg.bundle.json"}
    wheel = write_wheel(tmp_path, changed)
    (defect,) = expect(wheel, ManifestError, plugin=plugin)
    assert (defect.where, defect.cause) == (f"{wheel}: pkg/libpkg.bundle.json", "is missing")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: content.update(minimum_driver="999.0"), id="another bundle's"),
        pytest.param(lambda content: content.clear(), id="empty"),
    ],
)
def test_the_manifest_beside_must_be_the_one_inside(
    tmp_path: Path, tiny_bundle: Path, files: Mapping[str, bytes], change: Callable[[dict[str, object]], object]
) -> None:
    (tmp_path / "bundle.json").write_bytes((tiny_bundle / "bundle.json").read_bytes())
    change_manifest(tmp_path, change)
    other = (tmp_path / "bundle.json").read_bytes()
    (defect,) = expect(write_wheel(tmp_path / "wheel", {**files, "pkg/libpkg.bundle.json": other}), BundleMismatchError)
    assert "is not the one beside it" in defect.cause


def test_defects_of_the_library_inside_are_found(tmp_path: Path, tiny_bundle: Path, files: Mapping[str, bytes]) -> None:
    library = link_library(tiny_bundle, tmp_path / "lib.so", exports=["getCreators", "setLoggerFinder", "third"])
    wheel = write_wheel(tmp_path, {**files, "pkg/libpkg.so": library.read_bytes()})
    (defect,) = expect(wheel, ExportError)
    assert defect.where == f"{wheel}: pkg/libpkg.so"


def test_a_damaged_library_beside_its_manifest_is_no_missing_one(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    changed = {**files, "pkg/libpkg.so": files["pkg/libpkg.so"][:1000]}
    expect(write_wheel(tmp_path, changed), LibraryError)


# Reading


def test_a_file_is_read_up_to_a_limit(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    size = len(files["pkg/libpkg.so"])
    with Wheel(write_wheel(tmp_path, files)) as wheel:
        assert wheel.read("pkg/libpkg.so", limit=size) == files["pkg/libpkg.so"]
        with pytest.raises(WheelError, match=f"has {size} bytes, more than {size - 1}"):
            wheel.read("pkg/libpkg.so", limit=size - 1)


def test_elf_files_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    content = {"pkg/a.txt": b"\x7fELF...", "pkg/b.so": b"text", "pkg/c": b"\x7fEL", "pkg/d": struct.pack("<I", 0)}
    with Wheel(write_wheel(tmp_path, content)) as wheel:
        assert wheel.elf_names == ("pkg/a.txt",)
