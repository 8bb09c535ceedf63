"""Variables that stand in for options."""

from __future__ import annotations

import pytest

from hatch_tensoracle.config import HookConfig
from hatch_tensoracle.errors import ConfigurationError

FLAT: dict[str, object] = {"kernels": "k.py:K", "sources": ["a.cpp"], "library": "pkg/libpkg.so", "targets": ["sm75"]}


def refusal(variables: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        HookConfig.from_table(FLAT, variables)
    return str(caught.value)


def test_a_variable_stands_in_for_an_option_of_any_type() -> None:
    variables = {
        "TENSORACLE_TARGETS": "sm89 sm120",
        "TENSORACLE_CMAKE_ARGUMENTS": "-DA=1 '-DB=two words'",
        "TENSORACLE_PTX": "sm80",
        "TENSORACLE_SHIP_CUBINS": "True",
        "TENSORACLE_JOBS": "3",
        "TENSORACLE_PLATFORM_TAG": "auto",
    }
    config = HookConfig.from_table(FLAT, variables)
    (library,) = config.libraries
    assert (config.jobs, config.platform_tag) == (3, "auto")
    assert (library.targets, library.ptx, library.ship_cubins) == (("sm89", "sm120"), "sm80", True)
    assert library.cmake_arguments == ("-DA=1", "-DB=two words")


def test_a_variable_holds_for_every_library() -> None:
    libraries = [{**FLAT, "library": f"pkg/lib{name}.so"} for name in "ab"]
    config = HookConfig.from_table({"libraries": libraries}, {"TENSORACLE_TARGETS": "sm90"})
    assert [library.targets for library in config.libraries] == [("sm90",), ("sm90",)]


def test_a_variable_may_give_what_the_table_lacks() -> None:
    table = {key: value for key, value in FLAT.items() if key != "kernels"}
    (library,) = HookConfig.from_table(table, {"TENSORACLE_KERNELS": "other.py:K"}).libraries
    assert library.kernels == "other.py:K"


def test_an_empty_variable_and_those_of_others_say_nothing() -> None:
    variables = {"TENSORACLE_TARGETS": "", "TENSORACLE_CACHE_DIR": "/x", "TENSORACLE_LIBRARIES": "x"}
    assert HookConfig.from_table(FLAT, variables) == HookConfig.from_table(FLAT)


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("JOBS", "many", "must be an integer, not 'many'"),
        ("VERBOSE", "yes", "must be true, 1, false, 0, not 'yes'"),
        ("TARGETS", "'sm86", 'must be words as a shell takes them, not "\'sm86": No closing quotation'),
    ],
)
def test_a_value_of_another_type_is_told_with_its_variable(variable: str, value: str, problem: str) -> None:
    assert refusal({f"TENSORACLE_{variable}": value}) == f"Variable TENSORACLE_{variable} {problem}"


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("targets[1]", "sm86 sm85", "is an unknown target `sm85`; did you mean `sm89`?"),
        ("jobs", "0", "must be 1 or more, not 0"),
    ],
)
def test_a_wrong_value_is_told_with_its_option_and_its_variable(option: str, value: str, problem: str) -> None:
    variable = f"TENSORACLE_{option.partition('[')[0].upper()}"
    told = f"Option `{option}` for build hook `tensoracle`, given by the variable {variable}, {problem}"
    assert refusal({variable: value}) == told
