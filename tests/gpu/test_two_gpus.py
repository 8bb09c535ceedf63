"""Two GPUs in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from testing.child import in_child

from gpu.machine import Machine
from gpu.work import KINDS, Execution, session


@pytest.fixture
def two_gpus(machine: Machine, library: Path) -> Path:
    """The library, where the machine has two GPUs that it is for."""
    if len(machine.gpus) < 2:
        pytest.skip(f"this machine has {len(machine.gpus)} GPU; two are needed")
    if machine.sms[0] != machine.sms[1]:
        pytest.skip(f"the first two GPUs are of SM {machine.sms[0]} and {machine.sms[1]}; the libraries are for one")
    return library


@in_child
def test_two_gpus_compute_in_one_process(two_gpus: Path) -> None:
    with session(two_gpus) as at:
        contexts = [at.context, at.cuda.create_context(1)]
        executions, streams = [], []
        for context in contexts:
            context.make_current()
            executions.append([Execution(at, kind, (130, 200, 144)) for kind in KINDS])
            streams.append(context.create_stream())
        for seed in (5, 50):
            for context, own in zip(contexts, executions, strict=True):
                with context:
                    for execution in own:
                        execution.fill(seed + contexts.index(context))
            for context, own, stream in zip(contexts, executions, streams, strict=True):  # side by side
                with context:
                    for execution in own:
                        execution.enqueue(stream)
            for context, own, stream in zip(contexts, executions, streams, strict=True):
                with context:
                    stream.synchronize()
                    for execution in own:
                        execution.check()
        contexts[0].destroy()
        with contexts[1]:
            for execution in executions[1]:
                execution.fill(500)
                execution.enqueue(streams[1])
                streams[1].synchronize()
                execution.check()
