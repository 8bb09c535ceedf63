"""The GPU, the folder of libraries, and the report. Without either of the former everything here is skipped."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu.machine import PACK, ROOT, Machine, packed

_PATHS = [str(ROOT), str(ROOT / "tests")]
if importlib.util.find_spec("filelock") is None or importlib.util.find_spec("platformdirs") is None:
    _PATHS.append(str(PACK / "python"))
sys.path.extend(_PATHS)

_GROUPS = {
    "test_numbers": "numbers",
    "test_capture": "capture, and what enqueue does",
    "test_cuda_graphs": "CUDA graphs of the runtime",
    "test_compared_arrays": "compare_outputs on CuPy's arrays",
    "test_lifetime": "threads, contexts, destruction, repetition",
    "test_code": "choice of code, damaged code",
    "test_sanitizers": "compute-sanitizer",
    "test_two_gpus": "two GPUs",
    "test_check_command": "check --gpu",
}


@pytest.fixture(scope="package", autouse=True)
def machine() -> Iterator[Machine]:
    """The machine, which has a GPU. Processes that tests start find the same modules."""
    found = Machine.this()
    if found.absence:
        pytest.skip(found.absence)
    if not packed("example").is_file():
        pytest.skip(f"{PACK} holds no libraries: run python tests/gpu/pack.py")
    with pytest.MonkeyPatch.context() as patch:
        for path in reversed(_PATHS):
            patch.setenv("PYTHONPATH", path, prepend=os.pathsep)
        yield found


@pytest.fixture(scope="package")
def library(machine: Machine) -> Path:
    """The example's library for every target; this GPU must be one of them."""
    from hatch_tensoracle import Bundle

    found = packed("example")
    manifest = found.with_suffix(".bundle.json")
    targets = Bundle.parse(manifest.read_bytes(), str(manifest)).targets
    if f"sm{machine.sms[0]}" not in targets:
        pytest.skip(f"{PACK} is for {', '.join(targets)}: run python tests/gpu/pack.py --targets sm{machine.sms[0]}")
    return found


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Keeps a value for the report. pytest's own record_property warns where a JUnit file is asked for."""
    return lambda name, value: request.node.user_properties.append((name, value))


@pytest.fixture(scope="package")
def counting_driver(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A library that counts calls, and the driver that it passes them to."""
    from gpu.counting import compile_counting_driver

    return compile_counting_driver(tmp_path_factory.mktemp("counting")), machine.library


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the rows that docs/gpu.md keeps: what ran where, and how each group ended."""
    groups = list(_groups(terminalreporter.stats))
    if Machine.this().absence or not groups:
        return
    found = Machine.this()
    versions = [f"Python {platform.python_version()}"]
    for name in ("numpy", "torch"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    terminalreporter.section("for docs/gpu.md")
    lines = [
        f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}; {', '.join(found.gpus)} (SM {found.sms[0] / 10});",
        f"driver {found.driver} (CUDA {found.cuda}); {', '.join(versions)}",
        "",
        "| group | passed | failed | skipped | greatest error / bound |",
        "| --- | --- | --- | --- | --- |",
        *groups,
    ]
    for line in lines:
        terminalreporter.write_line(line)


def _groups(stats: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """A row for each module."""
    counts: dict[str, Counter[str]] = {}
    errors: dict[str, list[float]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in stats.get(outcome, ()):
            module = Path(report.nodeid.partition("::")[0])
            if module.parent.name == "gpu":
                counts.setdefault(module.stem, Counter())[outcome] += 1
                found = [value for name, value in report.user_properties if name == "error/bound"]
                errors.setdefault(module.stem, []).extend(found)
    for name, group in _GROUPS.items():
        if name in counts:
            count, error = counts[name], f"{max(errors[name]):.2f}" if errors[name] else ""
            failed = count["failed"] + count["error"]
            yield f"| {group} | {count['passed']} | {failed} | {count['skipped']} | {error} |"
