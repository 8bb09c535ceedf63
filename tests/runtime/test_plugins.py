"""Plugin libraries are registered once, in real registries, and what is refused says why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.libraries import link_library
from helpers.tools import run, tool

from hatch_tensoracle.errors import LibraryError
from hatch_tensoracle.runtime import PluginLibraryError, plugin_library, register_plugins
from hatch_tensoracle.runtime.plugin_creators import CreatorKey, creators_of
from runtime.processes import run_code

RUNTIMES = ["tensorrt_rtx", "tensorrt_lean"]
REGISTER = """
from pathlib import Path
runtime, *libraries = sys.argv[1:]
before = None
registered = []
for path in libraries:
    if path.startswith("append:"):
        with Path(path[7:]).open("ab") as file:
            file.write(b"more")
        continue
    found = attempt(register_plugins, [path], runtime)
    registered.append(found if isinstance(found, str) else [[str(one.path), one.creators] for one in found])
from hatch_tensoracle.runtime.distribution import distribution
creators = distribution(runtime).module.get_plugin_registry().all_creators
answer([registered, [creator.name for creator in creators if creator.name in ("AddRmsNorm", "MatmulBiasGelu")]])
"""
CREATORS = [["AddRmsNorm", "1", ""], ["MatmulBiasGelu", "1", ""]]


@pytest.fixture
def other(example_library: Path, tmp_path: Path) -> Path:
    """Another file with the example's plugins."""
    copy = shutil.copyfile(example_library, tmp_path / "libother.so")
    with copy.open("ab") as file:
        file.write(b"another")
    return copy


def registered(runtime: str, *libraries: str | Path) -> tuple[list[Any], list[str]]:
    """What each registration gave, and the example's creators in the registry; `append:FILE` changes a file."""
    outcomes, creators = run_code(REGISTER, runtime, *libraries).answer()
    return outcomes, creators


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_library_is_registered_once_whatever_its_path(runtime: str, example_library: Path, tmp_path: Path) -> None:
    copy = shutil.copyfile(example_library, tmp_path / "libcopy.so")
    outcomes, creators = registered(runtime, example_library, example_library, copy)
    assert outcomes == [[[str(example_library), CREATORS]]] * 3
    assert creators == ["AddRmsNorm", "MatmulBiasGelu"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_another_file_with_the_same_plugin_is_refused_and_both_are_named(
    runtime: str, example_library: Path, other: Path
) -> None:
    (_, refusal, again), creators = registered(runtime, example_library, other, example_library)
    assert refusal.startswith(f"PluginLibraryError: {other}: {runtime} ")
    assert f"has plugin AddRmsNorm version 1 already, of {example_library}; one process cannot have both" in refusal
    assert again == [[str(example_library), CREATORS]]
    assert creators == ["AddRmsNorm", "MatmulBiasGelu"]


def test_a_creator_that_somebody_else_registered_is_named(example_library: Path, other: Path) -> None:
    code = "import tensorrt_rtx; tensorrt_rtx.get_plugin_registry().load_library(sys.argv[1])"
    refusal = run_code(f"{code}; answer(attempt(register_plugins, [sys.argv[2]]))", example_library, other).answer()
    assert "has plugin AddRmsNorm version 1 already, of a library that was not loaded by register_plugins" in refusal


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_library_that_changed_on_disk_since_it_was_loaded_is_refused(
    runtime: str, example_library: Path, tmp_path: Path
) -> None:
    copy = shutil.copyfile(example_library, tmp_path / "libcopy.so")
    (_, refusal), _ = registered(runtime, copy, f"append:{copy}", copy)
    assert refusal.startswith(f"PluginLibraryError: {copy}: has changed since this process loaded it: SHA-256 ")
    assert refusal.endswith("Start the process again to use the new one.")


def test_a_library_that_another_runtime_loaded_under_this_path_is_refused(
    example_library: Path, other: Path, tmp_path: Path
) -> None:
    copy = shutil.copyfile(example_library, tmp_path / "libcopy.so")
    code = """
library, replacement, first, second = sys.argv[1:]
register_plugins([library], first)
__import__("os").replace(replacement, library)
answer(attempt(register_plugins, [library], second))
"""
    refusal = run_code(code, copy, other, *RUNTIMES).answer()
    assert refusal.startswith(f"PluginLibraryError: {copy}: has changed since this process loaded it: SHA-256 ")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_library_that_was_replaced_after_somebody_else_loaded_it_is_refused(
    runtime: str, example_library: Path, other: Path, tmp_path: Path
) -> None:
    """The loader has the old one for this path."""
    copy = shutil.copyfile(example_library, tmp_path / "libcopy.so")
    code = """
import ctypes, os
library, replacement, runtime = sys.argv[1:]
kept = ctypes.CDLL(library)
os.replace(replacement, library)
answer(attempt(register_plugins, [library], runtime))
"""
    refusal = run_code(code, copy, other, runtime).answer()
    assert refusal == (
        f"PluginLibraryError: {copy}: another version of it is loaded in this process. "
        "Start the process again to use this one."
    )


def test_a_relative_path_is_taken(example_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example_library.parent)
    outcomes, _ = registered("tensorrt_rtx", example_library.name)
    assert outcomes == [[[str(example_library), CREATORS]]]


def test_two_runtimes_of_one_process_have_a_registry_each(example_library: Path) -> None:
    code = "answer([len(register_plugins([sys.argv[1]], name)[0].creators) for name in sys.argv[2:]])"
    assert run_code(code, example_library, *RUNTIMES).answer() == [2, 2]


def missing(directory: Path) -> Path:
    return directory / "libmissing.so"


def a_directory(directory: Path) -> Path:
    return directory


def a_pipe(directory: Path) -> Path:
    os.mkfifo(directory / "libpipe.so")
    return directory / "libpipe.so"


def no_elf(directory: Path) -> Path:
    path = directory / "libtext.so"
    path.write_text("not a library")
    return path


def without_creators(directory: Path) -> Path:
    return link_library(None, directory / "libx.so", exports=["setLoggerFinder"])


def without_any(directory: Path) -> Path:
    return link_library(None, directory / "libx.so", exports=["other"])


def with_a_thousand_exports_before(directory: Path) -> Path:
    """Still without what TensorRT looks up: all of them are read."""
    return link_library(None, directory / "libx.so", exports=[f"a{n}" for n in range(1500)])


def unresolved(directory: Path) -> Path:
    (directory / "x.c").write_text("int absent(void); int getCreators(void) { return absent(); } int setLoggerFinder;")
    library = directory / "libx.so"
    run(tool("gcc"), "-shared", "-fPIC", "-Wl,-z,now", "-o", library, directory / "x.c")
    return library


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (missing, "cannot be read: No such file or directory"),
        (a_directory, "cannot be read: is not a regular file"),
        (a_pipe, "cannot be read: is not a regular file"),
        (no_elf, "is not a readable ELF file"),
        (without_creators, "is no plugin library: it does not export getCreators"),
        (without_any, "is no plugin library: it does not export getCreators and setLoggerFinder"),
        (with_a_thousand_exports_before, "does not export getCreators and setLoggerFinder"),
        (unresolved, "cannot be loaded: .*undefined symbol: absent"),
    ],
)
def test_a_library_that_cannot_be_loaded_says_why(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    library = make(tmp_path)
    with pytest.raises(PluginLibraryError, match=message) as caught:
        register_plugins([library])
    assert caught.value.library == str(library)


def test_a_single_path_is_no_list_of_libraries() -> None:
    with pytest.raises(TypeError, match="must be a sequence of paths"):
        register_plugins("libx.so")


def test_an_unreadable_library_says_why(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    library = no_elf(tmp_path)
    library.chmod(0)
    with pytest.raises(PluginLibraryError, match="cannot be read: Permission denied"):
        register_plugins([library])


@pytest.fixture
def damaged(example_library: Path, tmp_path: Path) -> Path:
    """The example's library with one bit of its last cubin changed."""
    data = bytearray(example_library.read_bytes())
    data[data.rindex(b"\x7fELF") + 200] ^= 1
    library = tmp_path / "libdamaged.so"
    library.write_bytes(data)
    return library


def test_an_embedded_bundle_is_verified_on_request(example_library: Path, damaged: Path) -> None:
    code = "answer([attempt(register_plugins, [path], verify=True) for path in sys.argv[1:]])"
    refusal, accepted = run_code(code, damaged, example_library).answer()
    assert refusal.startswith(f"PluginLibraryError: {damaged}: ")
    assert "SHA-256" in refusal
    assert "AddRmsNorm" in accepted[0]


def test_a_library_that_is_registered_is_verified_all_the_same(damaged: Path) -> None:
    code = "register_plugins(sys.argv[1:]); answer(attempt(register_plugins, sys.argv[1:], verify=True))"
    assert run_code(code, damaged).answer().startswith("PluginLibraryError: ")


def test_the_manifest_beside_a_library_is_compared_with_the_one_inside(example_library: Path, tmp_path: Path) -> None:
    copy = shutil.copyfile(example_library, tmp_path / "libcopy.so")
    (tmp_path / "libcopy.bundle.json").write_text("{}")
    with pytest.raises(PluginLibraryError, match=r"the manifest inside .* is not the one beside it"):
        register_plugins([copy], verify=True)


def test_a_library_without_a_bundle_has_nothing_to_verify(tmp_path: Path) -> None:
    library = link_library(None, tmp_path / "libx.so")
    with pytest.raises(PluginLibraryError, match="embeds no bundle") as caught:
        register_plugins([library], verify=True)
    assert isinstance(caught.value.__cause__, LibraryError)


def test_a_library_says_itself_what_it_creates(example_library: Path) -> None:
    """Nothing registers it: it is only asked."""
    assert creators_of(example_library) == [CreatorKey("AddRmsNorm", "1", ""), CreatorKey("MatmulBiasGelu", "1", "")]


def test_a_creator_is_shown_with_its_namespace() -> None:
    assert str(CreatorKey("A", "2", "mine")) == "plugin A version 2 of mine"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that must not be imported."""
    directory = tmp_path / "model_package"
    directory.mkdir()
    (directory / "__init__.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(tmp_path)
    return directory


def with_library(directory: Path, name: str) -> Path:
    """Put a library and its manifest into the directory, and one that has none."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.bundle.json").touch()
    (directory / "libplain.so").touch()
    library = directory / f"{name}.so"
    library.touch()
    return library


def test_the_library_of_an_installed_package_is_found(package: Path) -> None:
    library = with_library(package, "libmodel")
    assert plugin_library("model_package") == library


def test_a_library_in_a_folder_of_the_package_is_found(package: Path) -> None:
    library = with_library(package / "lib", "libmodel")
    assert plugin_library("model_package") == library


def test_of_several_libraries_one_is_named(package: Path) -> None:
    one, other = with_library(package, "libone"), with_library(package, "libother")
    assert plugin_library("model_package", "libone.so") == one
    assert plugin_library("model_package", "libother.so") == other
    with pytest.raises(PluginLibraryError, match=r"several plugin libraries\. Name one of libone\.so, libother\.so"):
        plugin_library("model_package")
    with pytest.raises(PluginLibraryError, match=r"no single library 'libmodel\.so', it has libone\.so, libother\.so"):
        plugin_library("model_package", "libmodel.so")


@pytest.mark.parametrize("name", ["absent_package", "absent_package.inner"])
def test_a_package_that_is_not_installed_is_named(name: str) -> None:
    with pytest.raises(PluginLibraryError, match=f"package '{name}' is not installed"):
        plugin_library(name)


def test_a_distribution_s_name_is_to_be_the_package_s() -> None:
    with pytest.raises(PluginLibraryError, match=r"is not installed\. Name it as `import` does: 'absent_package'"):
        plugin_library("absent-package")


def test_a_package_or_module_without_a_library_is_named(package: Path) -> None:
    for name in (package.name, "json.decoder"):
        with pytest.raises(PluginLibraryError, match=f"package '{name}' has no plugin library"):
            plugin_library(name)
