"""Which code of an entry a device gets: its own, or what is known to run on it, or an error with what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from testing.child import in_child

from hatch_tensoracle.targets import TARGETS
from launcher.launching import session
from launcher.libraries import link
from launcher.records import Code, Entry

DEVICES = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121, 130, 70, 72)

MIXES = {
    "portable": [Code(sm=sm) for sm in (75, 80, 86, 89, 90, 100, 120)],
    "reversed": [Code(sm=sm) for sm in (120, 100, 90, 89, 86, 80, 75)],
    "specific": [Code(sm=sm, specific=True) for sm in (90, 100, 120)],
    "both": [Code(sm=80), Code(sm=90, specific=True), Code(sm=120, specific=True), Code(sm=121)],
    "tegra": [Code(sm=87), Code(sm=72), Code(sm=101), Code(sm=110)],
    "newer": [Code(sm=89), Code(sm=121)],
    "ptx": [Code(sm=80, ptx=True)],
    "two_ptx": [Code(sm=75, ptx=True), Code(sm=89, ptx=True)],
    "ptx_first": [Code(sm=80, ptx=True), Code(sm=80), Code(sm=90, specific=True), Code(sm=120)],
    "specific_ptx": [Code(sm=90, specific=True, ptx=True)],
    "nothing": [],
}

# In the order of DEVICES; empty where nothing runs.
EXPECTED = {
    "portable": "sm75 sm80 sm86 - sm89 sm90 sm100 sm100 - sm120 sm120 - - -",
    "reversed": "sm75 sm80 sm86 - sm89 sm90 sm100 sm100 - sm120 sm120 - - -",
    "specific": "- - - - - sm90a sm100a - - sm120a - - - -",
    "both": "- sm80 sm80 - sm80 sm90a - - - sm120a sm121 - - -",
    "tegra": "- - - sm87 - - - - sm110 - - - - sm72",
    "newer": "- - - - sm89 - - - - - sm121 - - -",
    "ptx": "- ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 ptx80 - -",
    "two_ptx": "ptx75 ptx75 ptx75 ptx75 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89 - -",
    "ptx_first": "- sm80 sm80 ptx80 sm80 sm90a ptx80 ptx80 ptx80 sm120 sm120 ptx80 - -",
    "specific_ptx": "- - - - - ptx90a - - - - - - - -",
    "nothing": "- - - - - - - - - - - - - -",
}

SHIPPED = {
    "portable": "sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120",
    "reversed": "sm_120, sm_100, sm_90, sm_89, sm_86, sm_80, sm_75",
    "specific": "sm_90a, sm_100a, sm_120a",
    "both": "sm_80, sm_90a, sm_120a, sm_121",
    "tegra": "sm_87, sm_72, sm_101, sm_110",
    "newer": "sm_89, sm_121",
    "ptx": "PTX for sm_80",
    "two_ptx": "PTX for sm_75, PTX for sm_89",
    "ptx_first": "PTX for sm_80, sm_80, sm_90a, sm_120",
    "specific_ptx": "PTX for sm_90a",
    "nothing": "none",
}


def remedy(device: int) -> str:
    """What the hook then takes: a target, or PTX, which runs on what is newer."""
    if f"sm{device}" in TARGETS:
        return f"add sm{device} to its build's targets"
    if device < min(target.sm for target in TARGETS.values()):
        return "no build makes code for devices older than sm_75"
    return f"sm{device} is no target of builds; let its build keep PTX for an older GPU, by the option ptx"


def test_every_target_is_among_the_devices() -> None:
    assert {target.sm for target in TARGETS.values()} <= set(DEVICES)


@pytest.fixture(scope="session")
def mixes(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An entry for each mix of code, none of which is ever loaded."""
    entries = [Entry(kernel=name, codes=codes) for name, codes in MIXES.items()]
    return link(library, entries, tmp_path_factory.mktemp("mixes") / "mixes")


@in_child
def test_device_gets_its_own_code_or_the_nearest_that_runs_on_it(mixes: Path) -> None:
    expected = {
        (name, device): choice if choice != "-" else None
        for name, row in EXPECTED.items()
        for device, choice in zip(DEVICES, row.split(), strict=True)
    }
    chosen: dict[tuple[str, int], str | None] = {}
    with session(mixes, DEVICES) as at:
        for ordinal, device in enumerate(DEVICES):
            at.driver.create_context(ordinal)
            already = len(at.told("choice "))
            at.enqueue(at.make("Choose"))
            for line in at.told("choice ")[already:]:
                name, choice = line.split(" ", 1)
                chosen[name, device] = choice if " " not in choice else None
                if " " in choice:
                    assert choice == (
                        f"kernel {name}#0: no code runs on this device of sm_{device}; the library has "
                        f"{SHIPPED[name]}: {remedy(device)}"
                    )
    assert chosen == expected


@in_child
def test_launch_without_code_for_the_device_says_what_is_shipped(mixes: Path) -> None:
    with session(mixes, [121]) as at:
        assert at.refusal("specific", []) == (
            "Launch: onShapeChange: kernel specific#0: no code runs on this device of sm_121; "
            "the library has sm_90a, sm_100a, sm_120a: add sm121 to its build's targets"
        )
