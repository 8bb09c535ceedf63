"""The GPU generations and what a block can have of their shared memory."""

from __future__ import annotations

import pytest

from hatch_tensoracle.targets import DEFAULT_TARGETS, TARGETS, parse_ptx_target, parse_target


def test_shared_memory_is_that_of_the_programming_guide() -> None:
    """CUDA C++ Programming Guide, compute capabilities: greatest amount of shared memory per thread block, in KiB."""
    assert {name: target.max_shared / 1024 for name, target in TARGETS.items()} == {
        "sm75": 64,
        "sm80": 163,
        "sm86": 99,
        "sm87": 163,
        "sm89": 99,
        "sm90": 227,
        "sm100": 227,
        "sm103": 227,
        "sm120": 99,
        "sm121": 99,
    }


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_found_by_its_name(name: str) -> None:
    assert parse_target(name).name == name
    assert f"sm{parse_target(name).sm}" == name


def test_the_default_targets_are_known() -> None:
    assert set(DEFAULT_TARGETS) <= set(TARGETS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("sm_90", "did you mean `sm90`?", id="with an underscore"),
        pytest.param("sm90a", "did you mean `sm90`?", id="architecture-specific"),
        pytest.param("sm100f", "did you mean `sm100`?", id="of a family"),
        pytest.param("SM86", "known are sm75, sm80", id="in capitals"),
        pytest.param("8.6", "known are sm75, sm80", id="compute capability"),
        pytest.param("", "known are sm75, sm80", id="nothing"),
    ],
)
def test_an_unknown_target_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="unknown target") as caught:
        parse_target(name)
    assert f"`{name}`" in str(caught.value)
    assert hint in str(caught.value)


def test_ptx_is_for_targets_up_to_sm89() -> None:
    for name in ("sm75", "sm80", "sm86", "sm87", "sm89"):
        assert parse_ptx_target(name) == TARGETS[name]


@pytest.mark.parametrize("name", ["sm90", "sm100", "sm103", "sm120", "sm121"])
def test_ptx_of_a_newer_target_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ValueError, match="unusable") as caught:
        parse_ptx_target(name)
    assert str(caught.value) == (
        f"unusable PTX target `{name}`: from sm90 on Triton makes PTX for the architecture-specific form, here"
        f" {name.replace('sm', 'sm_')}a, which runs on no other GPU; name sm89 or an older one"
    )


def test_an_unknown_target_of_ptx_is_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match="unknown target `sm_89`; did you mean `sm89`"):
        parse_ptx_target("sm_89")
