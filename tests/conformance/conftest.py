"""The library whose plugins break the contract, and what `walk` finds in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.tools import run, tool

from conformance.defects import DEFECTS, SLOW
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.conformance import Case, Outcome, walk
from hatch_tensoracle.conformance.case import Input
from hatch_tensoracle.conformance.walk import TIMEOUT
from hatch_tensoracle.testing import native

CPP = Path(__file__).resolve().parents[2] / "cpp"
HANGING = 30.0
"""Seconds of the plugin that hangs, in which the checks before are made too. All others take as long as they take."""
PROCESSES = 3


def case_of(plugin: str) -> Case:
    """What every plugin of contract.cpp must accept."""
    given = Input(type="fp32", shape=(-1, 64), min=(1, 64), opt=(4, 64), max=(4096, 64))
    return Case(plugin=plugin, fields={"scale": 0.5, "label": "a"}, inputs=(given,))


@pytest.fixture(scope="session")
def contract_library(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """contract.cpp around the cubin for sm89 of one small kernel."""
    native.build(native.FAKE_DRIVER)  # before many processes want them at once
    native.build(native.HARNESS)
    bundle = Bundle.parse((tiny_bundle / "bundle.json").read_bytes(), "")
    ((entry, cubin),) = [(entry, cubin) for entry, cubin in bundle.cubins() if cubin.target == "sm89"]
    definitions = {
        "CUBIN": f'"{tiny_bundle / cubin.file}"',
        "SYMBOL": f'"{entry.symbol}"',
        "THREADS": str(cubin.threads),
        "DEFECTS": ", ".join(f'"{defect}"' for defect in DEFECTS),
    }
    library = tmp_path_factory.mktemp("contract") / "libcontract.so"
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    run(tool("g++"), *flags, *options, "-I", CPP / "include/tensoracle", "-o", library, source(), "-ldl")
    return library


def source() -> Path:
    """The plugins."""
    return Path(__file__).with_name("contract.cpp")


@pytest.fixture(scope="session")
def outcomes_of(contract_library: Path) -> Callable[[str], list[Outcome]]:
    """The outcomes of a plugin's checks, by its name. All plugins are walked through at once."""

    def walked(plugins: Sequence[str]) -> list[Outcome]:
        timeout = HANGING if plugins == [SLOW] else TIMEOUT
        return list(walk(contract_library, [case_of(plugin) for plugin in plugins], "89", timeout=timeout))

    names = ["Good", *(defect for defect in DEFECTS if defect != SLOW)]
    with ThreadPoolExecutor() as pool:
        groups = pool.map(walked, [[SLOW], *(names[i::PROCESSES] for i in range(PROCESSES))])
    outcomes = [outcome for group in groups for outcome in group]
    return lambda plugin: [outcome for outcome in outcomes if outcome.case == case_of(plugin).label]
