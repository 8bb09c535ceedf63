"""Builder settings, and options that went elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hatch_tensoracle.runtime import BuilderSettings, EngineBuild
from hatch_tensoracle.runtime.builder_settings import refuse_options


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tf32": True}, ValueError, "tf32 must be false"),
        ({"tf32": 0}, TypeError, "tf32 must be true or false, not 0"),
        ({"embed_plugins": 1}, TypeError, "embed_plugins must be true or false"),
        ({"workspace_limit": -1}, ValueError, "workspace_limit is -1 bytes"),
        ({"workspace_limit": True}, TypeError, "workspace_limit must be an integer, not True"),
        ({"optimization_level": 6}, ValueError, "optimization_level is 6, must be 0 to 5"),
        ({"hardware_compatibility": "all"}, ValueError, "must be one of none, ampere_plus, same_compute_capability"),
        ({"timing_cache": 3}, TypeError, "BuilderSettings: timing_cache must be a path, not 3"),
        ({"compute_capabilities": "sm89"}, TypeError, "must be a sequence of names"),
        ({"compute_capabilities": ["8.9"]}, ValueError, "'8.9' is not like 'sm89'"),
        ({"compute_capabilities": ["sm89", "sm89"]}, ValueError, "each once"),
        ({"compute_capabilities": ["current", "sm89"]}, ValueError, "`current` alone"),
        ({"workspace_limt": 1}, TypeError, "workspace_limt"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        BuilderSettings(**options)


@pytest.mark.parametrize(
    "option",
    ["cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy", "runtime_cache", "runtime_cache_path"],
)
@pytest.mark.parametrize(
    "place",
    [
        lambda **options: EngineBuild(precision="fp32", inputs={}, **options),
        BuilderSettings,
        lambda **options: refuse_options("open_engine", options),
    ],
    ids=["EngineBuild", "BuilderSettings", "a function"],
)
def test_an_option_that_moved_is_refused_with_its_place_today(place: Callable[..., object], option: str) -> None:
    with pytest.raises(
        TypeError, match=rf"no option '{option}'.*runtime_settings.*RuntimeSettings\({option.removesuffix('_path')}="
    ):
        place(**{option: "lazy"})


def test_an_option_that_never_was_is_refused_by_a_function() -> None:
    with pytest.raises(TypeError, match=r"^open_engine has no option 'grph'$"):
        refuse_options("open_engine", {"grph": 1})
