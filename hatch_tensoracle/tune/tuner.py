"""Tunes the cases of a library: each shape is measured once, and the journal remembers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from hatch_tensoracle._files import write_whole
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.testing import Cuda, PluginHarness, PluginTestError
from hatch_tensoracle.tune.case import Case, Sizes
from hatch_tensoracle.tune.journal import Header, Journal, Times, journal_path
from hatch_tensoracle.tune.meter import Meter
from hatch_tensoracle.tune.subject import Subject
from hatch_tensoracle.tune.survey import survey
from hatch_tensoracle.tuning import Tuning, read_tuning, tuning_json

__all__ = ["tune"]

Progress = Callable[[str], None]


def tune(  # noqa: PLR0913 - what there is to say
    library: Path,
    bundle: Bundle,
    cases: Sequence[Case],
    output: Path,
    progress: Progress,
    *,
    restart: bool = False,
    label: str = "",
) -> None:
    """Measure the cases on this machine's GPU, and write `output` after each.

    `bundle` is the library's manifest. What was measured goes to the journal beside `output`, of which the next run
    makes use, and which `restart` forgets. Entries of `output` for other plugins, fields or SMs stay. `progress` is
    given a line for each measured shape. Messages call the library `label`, or by its path.
    Raises ConfigurationError or TuningError.
    """
    kept = read_tuning(output) if output.exists() else ()
    cuda = _start()
    device, driver = cuda.current_device(), cuda.driver_version()
    kernels = dataclasses.replace(bundle, tuning=()).sealed().digest
    header = Header(gpu=device.name, sm=device.sm, driver=driver, kernels=kernels)
    with (
        PluginHarness(library, label=label) as harness,
        Journal(journal_path(output), header, restart=restart) as journal,
    ):
        progress(f"{device.name}, sm_{device.sm}, driver {driver}; {journal.path} has {len(journal)} measurements")
        meter = Meter(cuda)
        tuned: list[Tuning] = []
        for subject in [Subject(case, harness, bundle) for case in cases]:
            boxes = survey(subject.case, _measure(subject, meter, journal, progress))
            tuned.append(subject.tuning(boxes, gpu=device.name, sm=device.sm, driver=driver))
            write_whole(output, tuning_json(_merged(kept, tuned)))
            progress(f"{subject.case.label}: {len(boxes)} ranges")


def _start() -> Cuda:
    try:
        cuda = Cuda()
        cuda.create_context()
    except PluginTestError as error:
        raise ConfigurationError(f"no GPU can be used: {error}", remedy="Tune on a machine with one.") from error
    return cuda


def _measure(subject: Subject, meter: Meter, journal: Journal, progress: Progress) -> Callable[[Sizes], Times]:
    case, id_ = subject.case, subject.case.id

    def measure(sizes: Sizes) -> Times:
        sizes = {name: sizes[name] for name in case.sizes}
        times = journal.find(id_, sizes)
        if times is None:
            times = subject.measure(sizes, meter)
            journal.add(id_, case.kernel, sizes, times)
            progress(f"{case.kernel} {_summary(sizes, times)}")
        return times

    return measure


def _summary(sizes: Sizes, times: Times) -> str:
    known = {name: us for name, us in times.items() if us is not None}
    best = min(known, key=lambda name: known[name])
    shown = " ".join(f"{name}={value}" for name, value in sizes.items())
    failed = f", {len(times) - len(known)} cannot run" if len(known) < len(times) else ""
    return f"{shown}: {best} {known[best]:.2f} us, slowest {max(known.values()):.2f} us{failed}"


def _merged(kept: Sequence[Tuning], tuned: Sequence[Tuning]) -> list[Tuning]:
    """Those kept that were not tuned again. Cases of one plugin with the same types and fields are one entry."""
    merged: dict[object, Tuning] = {}
    for tuning in tuned:
        before = merged[tuning.key].ranges if tuning.key in merged else ()
        merged[tuning.key] = dataclasses.replace(tuning, ranges=(*before, *tuning.ranges))
    return [*(tuning for tuning in kept if tuning.key not in merged), *merged.values()]
