"""The hook's options: what is taken, and what is refused with which words."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from hatch_tensoracle.config import HookConfig, LibraryConfig
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.targets import DEFAULT_TARGETS, TARGETS

OPTIONS = (
    "Options are kernels, sources, library, targets, ptx, tuning, ptxas, ship-cubins, include-directories,"
    " compile-definitions, cmake-arguments, platform-tag, jobs, verbose, build-directory."
)
FLAT: dict[str, Any] = {"kernels": "kernels.py:KERNELS", "sources": ["src/plugin.cpp"], "library": "pkg/libpkg.so"}


def refusal(table: dict[str, Any]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        HookConfig.from_table(table)
    return caught.value


def test_the_flat_form_is_one_library() -> None:
    config = HookConfig.from_table({**FLAT, "targets": ["sm90", "sm75"]})
    assert config.libraries == (
        LibraryConfig(
            kernels="kernels.py:KERNELS",
            sources=("src/plugin.cpp",),
            library="pkg/libpkg.so",
            targets=("sm90", "sm75"),
        ),
    )


def test_the_array_form_keeps_libraries_in_their_order() -> None:
    tables = [{**FLAT, "library": f"pkg/lib{name}.so"} for name in ("z", "a")]
    config = HookConfig.from_table({"libraries": tables})
    assert [library.library for library in config.libraries] == ["pkg/libz.so", "pkg/liba.so"]


def test_targets_are_the_default_ones_if_left_out() -> None:
    (library,) = HookConfig.from_table(FLAT).libraries
    assert library.targets == DEFAULT_TARGETS == ("sm86", "sm89", "sm120")


def test_every_known_target_is_taken() -> None:
    (library,) = HookConfig.from_table({**FLAT, "targets": list(TARGETS)}).libraries
    assert library.targets == tuple(TARGETS)


def test_kernels_names_a_file_and_a_list_in_it() -> None:
    (library,) = HookConfig.from_table({**FLAT, "kernels": "sub dir/kernels.v2.py:ALL_2"}).libraries
    assert (library.kernels_file, library.kernels_name) == ("sub dir/kernels.v2.py", "ALL_2")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("dependencies", ["numpy"], id="dependencies"),
        pytest.param("require-runtime-dependencies", True, id="require-runtime-dependencies"),
        pytest.param("require-runtime-features", ["extra"], id="require-runtime-features"),
        pytest.param("enable-by-default", False, id="enable-by-default"),
    ],
)
@pytest.mark.parametrize("form", [FLAT, {"libraries": [FLAT]}], ids=["flat", "array"])
def test_options_that_hatchling_reads_itself_are_no_unknown_ones(form: dict[str, Any], key: str, value: object) -> None:
    assert HookConfig.from_table({**form, key: value}) == HookConfig.from_table(form)


@pytest.mark.parametrize("option", ["kernels", "sources", "library"])
def test_an_option_without_default_must_be_given(option: str) -> None:
    error = refusal({key: value for key, value in FLAT.items() if key != option})
    assert str(error) == f"Option `{option}` for build hook `tensoracle` is missing"
    assert error.remedy == OPTIONS


def test_an_empty_table_says_what_is_missing() -> None:
    assert str(refusal({})) == "Option `kernels` for build hook `tensoracle` is missing"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        pytest.param("kernel", "did you mean `kernels`?", id="kernel"),
        pytest.param("source", "did you mean `sources`?", id="source"),
        pytest.param("target", "did you mean `targets`?", id="target"),
        pytest.param("libary", "did you mean `library`?", id="libary"),
        pytest.param("ptxx", "did you mean `ptx`?", id="ptxx"),
        pytest.param("colour", "known are `kernels`, `sources`, `library`, `targets`, `ptx`, `tun", id="nothing-near"),
        pytest.param("platform_tag", "did you mean `platform-tag`?", id="underscore"),
        pytest.param("job", "did you mean `jobs`?", id="of-the-wheel"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(key: str, hint: str) -> None:
    error = refusal({**FLAT, key: "x"})
    assert str(error).startswith(f"Option `{key}` for build hook `tensoracle` is an unknown key; {hint}")


def test_an_unknown_option_of_one_library_says_which_library() -> None:
    error = refusal({"libraries": [FLAT, {**FLAT, "library": "pkg/libother.so", "sorces": []}]})
    assert (
        str(error)
        == "Option `libraries[1].sorces` for build hook `tensoracle` is an unknown key; did you mean `sources`?"
    )


def test_plugins_without_cpp_are_refused_with_what_to_do_instead() -> None:
    error = refusal({**FLAT, "plugins": "plugins.py:PLUGINS"})
    assert str(error) == "Option `plugins` for build hook `tensoracle` is not supported yet"
    assert error.remedy == "Declare the plugin in C++ and name its file in `sources`."


@pytest.mark.parametrize(
    ("option", "value", "where", "problem"),
    [
        pytest.param(
            "kernels", ["kernels.py:K"], "kernels", "must be a string, not ['kernels.py:K']", id="kernels-list"
        ),
        pytest.param("kernels", 3, "kernels", "must be a string, not 3", id="kernels-number"),
        pytest.param("sources", "a.cpp", "sources", "must be an array, not 'a.cpp'", id="sources-string"),
        pytest.param("sources", ["a.cpp", 3], "sources[1]", "must be a string, not 3", id="source-number"),
        pytest.param("library", True, "library", "must be a string, not True", id="library-bool"),
        pytest.param("library", {"a": 1}, "library", "must be a string, not {'a': 1}", id="library-table"),
        pytest.param("targets", "sm86", "targets", "must be an array, not 'sm86'", id="targets-string"),
        pytest.param("targets", [86], "targets[0]", "must be a string, not 86", id="target-number"),
        pytest.param("ptx", ["sm89"], "ptx", "must be a string or null, not ['sm89']", id="ptx-list"),
        pytest.param("ptx", True, "ptx", "must be a string or null, not True", id="ptx-bool"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_it_is_and_must_be(
    option: str, value: object, where: str, problem: str
) -> None:
    error = refusal({**FLAT, option: value})
    assert str(error) == f"Option `{where}` for build hook `tensoracle` {problem}"


@pytest.mark.parametrize("value", ["x", {"kernels": "k.py:K"}, ["x"]], ids=["string", "table", "array-of-strings"])
def test_libraries_must_be_an_array_of_tables(value: object) -> None:
    assert "for build hook `tensoracle` must be a" in str(refusal({"libraries": value}))


@pytest.mark.parametrize(
    "value",
    ["", "kernels.py", "kernels.py:", ":KERNELS", "kernels:KERNELS", "kernels.py:a b", "kernels.py:K:L", "k.py:2"],
)
def test_kernels_must_be_a_file_and_a_name(value: str) -> None:
    error = refusal({**FLAT, "kernels": value})
    assert str(error) == f"Option `kernels` for build hook `tensoracle` must be `FILE.py:NAME`, not {value!r}"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("libpkg.so", id="outside-any-package"),
        pytest.param("/pkg/libpkg.so", id="absolute"),
        pytest.param("pkg/../libpkg.so", id="parent"),
        pytest.param("./pkg/libpkg.so", id="dot"),
        pytest.param("pkg//libpkg.so", id="empty-part"),
        pytest.param("pkg\\libpkg.so", id="backslash"),
        pytest.param("pkg/pkg.so", id="no-lib-prefix"),
        pytest.param("pkg/lib.so", id="no-name"),
        pytest.param("pkg/libpkg.dll", id="other-suffix"),
        pytest.param("pkg/libpkg.so.1", id="version-suffix"),
        pytest.param("pkg/libpkg.so\n", id="newline"),
        pytest.param("pkg/lib${x}.so", id="cmake-variable"),
    ],
)
def test_library_must_be_a_plain_path_of_a_shared_object_in_the_wheel(value: str) -> None:
    error = refusal({**FLAT, "library": value})
    must = f"must be a path in the wheel such as `pkg/libpkg.so`, not {value!r}"
    assert str(error) == f"Option `library` for build hook `tensoracle` {must}"


@pytest.mark.parametrize("option", ["sources", "targets"])
def test_an_empty_array_is_refused(option: str) -> None:
    assert str(refusal({**FLAT, option: []})).startswith(
        f"Option `{option}` for build hook `tensoracle` must name at least one"
    )


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        pytest.param("sm_86", "did you mean `sm86`?", id="underscore"),
        pytest.param("sm90a", "did you mean `sm90`?", id="architecture-specific"),
        pytest.param("gfx942", f"known are {', '.join(TARGETS)}", id="other-vendor"),
    ],
)
def test_an_unknown_target_suggests_the_nearest(target: str, hint: str) -> None:
    error = refusal({**FLAT, "targets": ["sm86", target]})
    assert str(error) == f"Option `targets[1]` for build hook `tensoracle` is an unknown target `{target}`; {hint}"


def test_the_readme_has_every_option_in_its_order() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    options = re.findall(r"^\| `([\w-]+)` \|", readme, re.MULTILINE)
    fields = (*dataclasses.fields(LibraryConfig), *dataclasses.fields(HookConfig)[1:])
    assert options == [field.name.replace("_", "-") for field in fields]


def test_ptx_is_off_unless_it_is_asked_for() -> None:
    (library,) = HookConfig.from_table(FLAT).libraries
    assert library.ptx is None
    (library,) = HookConfig.from_table({**FLAT, "targets": ["sm120"], "ptx": "sm89"}).libraries
    assert (library.targets, library.ptx) == (("sm120",), "sm89")


def test_each_library_says_for_itself_whether_it_has_ptx() -> None:
    tables = [{**FLAT, "library": "pkg/liba.so", "ptx": "sm80"}, {**FLAT, "library": "pkg/libb.so"}]
    assert [library.ptx for library in HookConfig.from_table({"libraries": tables}).libraries] == ["sm80", None]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        pytest.param("sm90", "an unusable PTX target `sm90`: from sm90 on Triton makes PTX for the", id="too-new"),
        pytest.param("sm120", "an unusable PTX target `sm120`: from sm90 on Triton makes PTX for the", id="newest"),
        pytest.param("compute_89", "an unknown target `compute_89`; known are sm75, sm80", id="unknown"),
        pytest.param("", "an unknown target ``; known are", id="empty"),
    ],
)
def test_ptx_that_would_run_nowhere_else_is_refused(target: str, problem: str) -> None:
    assert str(refusal({**FLAT, "ptx": target})).startswith(f"Option `ptx` for build hook `tensoracle` is {problem}")
    where = "Option `libraries[0].ptx` for build hook `tensoracle` is"
    assert str(refusal({"libraries": [{**FLAT, "ptx": target}]})).startswith(f"{where} {problem}")


@pytest.mark.parametrize(
    ("option", "value", "where", "problem"),
    [
        pytest.param("ptxas", ["p"], "ptxas", "must be a string or null, not ['p']", id="ptxas-list"),
        pytest.param("ship-cubins", "yes", "ship-cubins", "must be true or false, not 'yes'", id="ship-cubins-string"),
        pytest.param("jobs", True, "jobs", "must be an integer or null, not True", id="jobs-bool"),
        pytest.param("jobs", 0, "jobs", "must be 1 or more, not 0", id="no-jobs"),
        pytest.param("verbose", 1, "verbose", "must be true or false, not 1", id="verbose-number"),
        pytest.param(
            "platform-tag",
            "manylinux2014",
            "platform-tag",
            "must be `linux`, `auto` or `manylinux_2_X`, not 'manylinux2014'",
            id="old-name-of-a-tag",
        ),
        pytest.param(
            "compile-definitions",
            ["A", "2=B"],
            "compile-definitions[1]",
            "must be `NAME` or `NAME=VALUE` on one line and without `;`, not '2=B'",
            id="no-name",
        ),
        pytest.param(
            "compile-definitions",
            ["A=1;2"],
            "compile-definitions[0]",
            "must be `NAME` or `NAME=VALUE` on one line and without `;`, not 'A=1;2'",
            id="semicolon",
        ),
        pytest.param(
            "cmake-arguments",
            ["-GXcode"],
            "cmake-arguments[0]",
            "must not be '-GXcode': -S, -B, -G are the hook's own",
            id="other-generator",
        ),
    ],
)
def test_a_value_that_does_not_fit_says_what_it_must_be(option: str, value: object, where: str, problem: str) -> None:
    assert str(refusal({**FLAT, option: value})) == f"Option `{where}` for build hook `tensoracle` {problem}"


def test_options_of_the_wheel_stand_beside_the_libraries() -> None:
    config = HookConfig.from_table({"libraries": [FLAT], "jobs": 2, "platform-tag": "manylinux_2_28"})
    assert (config.jobs, config.platform_tag) == (2, "manylinux_2_28")
    error = refusal({"libraries": [{**FLAT, "jobs": 2}]})
    where = "Option `libraries[0].jobs` for build hook `tensoracle`"
    assert str(error) == f"{where} is for the whole wheel: put it beside `libraries`"


def test_two_libraries_at_one_path_are_refused() -> None:
    error = refusal({"libraries": [FLAT, FLAT]})
    assert "Option `libraries` for build hook `tensoracle` must give each library its own path" in str(error)


def test_no_library_at_all_is_refused() -> None:
    error = refusal({"libraries": []})
    assert str(error) == "Option `libraries` for build hook `tensoracle` must have at least one library"


def test_flat_options_beside_libraries_are_refused() -> None:
    error = refusal({"libraries": [FLAT], "targets": ["sm86"]})
    assert (
        str(error) == "Option `targets` for build hook `tensoracle` must stand in each of `libraries`, not beside them"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that FLAT names."""
    (tmp_path / "src").mkdir()
    for name in ("kernels.py", "src/plugin.cpp"):
        (tmp_path / name).touch()
    return tmp_path


def test_nothing_is_said_if_all_are_there(project: Path) -> None:
    HookConfig.from_table(FLAT).check_files(project)


@pytest.mark.parametrize(("option", "file"), [("kernels", "kernels.py"), ("sources", "src/plugin.cpp")])
def test_a_missing_file_is_named_with_its_option(project: Path, option: str, file: str) -> None:
    (project / file).unlink()
    with pytest.raises(ConfigurationError) as caught:
        HookConfig.from_table(FLAT).check_files(project)
    assert str(caught.value) == (
        f"Option `{option}` for build hook `tensoracle` names '{file}', which is not in {project}"
    )
    assert caught.value.remedy == "Paths are relative to pyproject.toml; is the file left out of the sdist?"


def test_a_tuning_file_that_is_missing_is_named(project: Path) -> None:
    config = HookConfig.from_table({**FLAT, "tuning": "tuning.json"})
    with pytest.raises(ConfigurationError, match=r"Option `tuning` .* names 'tuning\.json', which is not in"):
        config.check_files(project)
    (project / "tuning.json").touch()
    config.check_files(project)


@pytest.mark.parametrize(("option", "value"), [("ptxas", "bin/ptxas"), ("include-directories", ["include"])])
def test_an_assembler_or_include_directory_that_is_missing_is_named(
    project: Path, option: str, value: str | list[str]
) -> None:
    with pytest.raises(ConfigurationError, match=rf"Option `{option}` .* names '[\w/]+', which is not in"):
        HookConfig.from_table({**FLAT, option: value}).check_files(project)


def test_a_version_is_no_assembler(project: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Option `ptxas` .* names '13\.0\.88', which is not in") as caught:
        HookConfig.from_table({**FLAT, "ptxas": "13.0.88"}).check_files(project)
    assert caught.value.remedy.startswith("It is the path of a ptxas")


def test_a_directory_is_no_source_file(project: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"names 'src', which is not"):
        HookConfig.from_table({**FLAT, "sources": ["src"]}).check_files(project)


def test_every_library_is_looked_at(project: Path) -> None:
    other = {**FLAT, "library": "pkg/libother.so", "sources": ["src/other.cpp"]}
    with pytest.raises(ConfigurationError, match=r"names 'src/other\.cpp'"):
        HookConfig.from_table({"libraries": [FLAT, other]}).check_files(project)
