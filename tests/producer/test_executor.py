"""compile_bundle on executors of the caller's: the same bundle, and a lost worker is the error of its compile."""

from __future__ import annotations

import importlib
import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from helpers import kernels
from helpers.producing import toolchain
from helpers.projects import tree

from hatch_tensoracle.targets import parse_target
from tensoracle_producer import CompileError, KernelSpec, Pointer, compile_bundle
from tensoracle_producer import schedule as schedule_module
from tensoracle_producer.cache import compiler_digest
from tensoracle_producer.compiler import KernelError
from tensoracle_producer.elsewhere import compile_elsewhere
from tensoracle_producer.variant import make_variants

SPECS = [
    KernelSpec(kernels.scaled, name=f"scaled_{n}", arguments=[Pointer("fp32")], constants={"FACTOR": float(n)})
    for n in range(3)
]
TARGETS = ["sm86", "sm120"]


@pytest.fixture(autouse=True)
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bundle as the pool of the producer's own makes it."""
    directory = tmp_path_factory.mktemp("expected") / "bundle"
    compile_bundle(SPECS, TARGETS, directory)
    return tree(directory)


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


@pytest.mark.parametrize("make", [ThreadPoolExecutor, spawned], ids=["threads", "processes"])
def test_the_bundle_is_the_same_on_an_executor_of_the_standard_library(
    tmp_path: Path, expected: dict[str, bytes], make: Any
) -> None:
    lines: list[str] = []
    with make(2) as executor:
        compile_bundle(SPECS, TARGETS, tmp_path / "bundle", executor=executor, progress=lines.append)
        assert executor.submit(os.getpid).result() > 0  # it is the caller's to shut down
    assert tree(tmp_path / "bundle") == expected
    assert len(lines) == 6


def test_an_abort_of_llvm_fails_its_compile_and_no_worker_of_the_executor(tmp_path: Path) -> None:
    bad = KernelSpec(kernels.aborts, name="aborts", arguments=[Pointer("i32")])
    with ThreadPoolExecutor(2) as executor, pytest.raises(CompileError) as caught:
        compile_bundle([bad, *SPECS], ["sm86"], tmp_path / "bundle", executor=executor)
    (failure,) = caught.value.failures
    assert failure.kernel == "aborts#0"
    assert "the compiler's process" in failure.cause


class Lossy(Executor):
    """Loses every task whose number is among those, as a worker that ends does."""

    def __init__(self, *lost: int) -> None:
        self.lost = lost
        self.count = 0
        self.inner = ThreadPoolExecutor(1)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand on, or lose."""
        self.count += 1
        if self.count - 1 in self.lost:
            future: Future[Any] = Future()
            future.set_exception(ConnectionError("the worker has gone"))
            return future
        return self.inner.submit(fn, *args, **kwargs)


def test_a_task_that_the_executor_loses_is_the_error_of_its_compile(tmp_path: Path) -> None:
    executor = Lossy(1)
    with pytest.raises(CompileError) as caught:
        compile_bundle(SPECS, ["sm86"], tmp_path / "bundle", executor=executor)
    (failure,) = caught.value.failures
    assert str(failure) == ("kernel `scaled_1#0` for sm86: not compiled: ConnectionError: the worker has gone")
    assert isinstance(caught.value.__cause__, ConnectionError)
    lines: list[str] = []
    compile_bundle(SPECS, ["sm86"], tmp_path / "bundle", executor=executor, progress=lines.append)
    assert lines[0] == "2 of 3 are known from earlier builds"  # the next build does the rest


def test_an_executor_that_is_shut_down_is_an_error_of_every_compile(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(CompileError, match="RuntimeError: cannot schedule new futures") as caught:
        compile_bundle(SPECS, ["sm86"], tmp_path / "bundle", executor=executor)
    assert len(caught.value.failures) == 3


def test_an_interrupt_cancels_what_has_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    futures: list[Future[Any]] = []

    class Idle(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ARG002
            futures.append(Future())
            return futures[-1]

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule_module, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_bundle(SPECS, ["sm86"], tmp_path / "bundle", executor=Idle())
    assert [future.cancelled() for future in futures] == [True] * 3


@pytest.mark.parametrize("tool", ["triton", "ptxas"])
def test_a_worker_with_other_tools_is_refused(tool: str) -> None:
    (variant,) = make_variants(SPECS[:1])
    job = variant.job(parse_target("sm86"), toolchain().ptxas)
    with pytest.raises(KernelError, match=rf"the executor's worker on \S+ has {tool} \S+, this build has 0\.0\.0"):
        compile_elsewhere(job, None, {**toolchain().versions, tool: "0.0.0"}, compiler_digest())


def test_a_worker_of_another_release_is_refused() -> None:
    """What it made would stay in the cache of this one."""
    (variant,) = make_variants(SPECS[:1])
    job = variant.job(parse_target("sm86"), toolchain().ptxas)
    with pytest.raises(KernelError, match=r"the executor's worker on \S+ has another release of hatch-tensoracle"):
        compile_elsewhere(job, None, toolchain().versions, "0" * 64)


def test_a_worker_takes_the_ptxas_of_its_own_machine() -> None:
    (variant,) = make_variants(SPECS[:1])
    job = variant.job(parse_target("sm86"), Path("/not/here/ptxas"))
    assert compile_elsewhere(job, None, toolchain().versions, compiler_digest()).cubin.startswith(b"\x7fELF")


class Dying(Executor):
    """Sends along, with the first task, what ends the worker's process: once, or every time."""

    def __init__(self, inner: Executor, flag: Path, *, once: bool) -> None:
        self.inner = inner
        self.flags: list[Path] = [flag]
        self.once = once

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand on."""
        if self.flags:
            return self.inner.submit(_die, self.flags.pop(), self.once, fn, *args, **kwargs)
        return self.inner.submit(fn, *args, **kwargs)


def _die(flag: Path, once: bool, fn: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
    if not (once and flag.exists()):
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return fn(*args, **kwargs)


@pytest.fixture(scope="module")
def dask() -> Iterator[Executor]:
    """Two workers of Dask, each in a process."""
    distributed: Any = importlib.import_module("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor(pure=False) as executor,
    ):
        yield executor


def test_the_bundle_is_the_same_on_dask(dask: Executor, tmp_path: Path, expected: dict[str, bytes]) -> None:
    compile_bundle(SPECS, TARGETS, tmp_path / "bundle", executor=dask)
    assert tree(tmp_path / "bundle") == expected


def test_what_a_worker_of_dask_had_is_given_to_another(
    dask: Executor, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    flag = tmp_path / "died"
    compile_bundle(SPECS, TARGETS, tmp_path / "bundle", executor=Dying(dask, flag, once=True))
    assert flag.exists()
    assert tree(tmp_path / "bundle") == expected


def test_what_no_worker_of_dask_survives_is_the_error_of_its_compile(dask: Executor, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        # One alone: Dask blames whatever stood on a worker that ended.
        compile_bundle(SPECS[:1], ["sm86"], tmp_path / "bundle", executor=Dying(dask, tmp_path / "died", once=False))
    (failure,) = caught.value.failures
    assert failure.kernel == "scaled_0#0"
    assert failure.cause.startswith("not compiled: KilledWorker: ")
