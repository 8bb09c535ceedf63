"""Runtime caches: what is read, held, added to and saved when, on the stand-in."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import logging
import os
import pickle
import re
import stat
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from filelock import FileLock

from hatch_tensoracle.runtime import RuntimeCache, RuntimeSettings
from hatch_tensoracle.runtime import kernel_cache as cache_module
from hatch_tensoracle.runtime import kernel_cache_file as file_module
from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.errors import GpuError
from hatch_tensoracle.runtime.execution import EngineExecution
from hatch_tensoracle.runtime.gpu import GpuIdentity
from runtime.conftest import Opener
from runtime.processes import run_code
from runtime.stand_in import CACHE_MAGIC, FAILING, JOURNAL, IRuntimeConfig, tensor

X, Y = tensor("INPUT", (5,)), tensor("OUTPUT", (5,))
AT = {"x": 256, "y": 512}


def blob(*kernels: str) -> bytes:
    """What the stand-in makes of these kernels."""
    return CACHE_MAGIC + b"[" + b", ".join(b'"%s"' % kernel.encode() for kernel in sorted(kernels)) + b"]"


OWN = "stand-in []"
"""The kernel that an execution here makes."""


def executed(opener: Opener, cache: Any) -> EngineExecution:
    execution = EngineExecution(opener(x=X, y=Y))
    execution.runtime_settings = RuntimeSettings(runtime_cache=cache)
    execution.enqueue(AT, stream=1)
    return execution


def live(cache: RuntimeCache) -> Any:
    return cache.materialized(IRuntimeConfig._made())  # noqa: SLF001


def test_a_cache_is_made_with_its_first_use(opened_rtx: Opener, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(blob("a"))
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.runtime_settings = RuntimeSettings(runtime_cache=tmp_path / "cache")
    assert JOURNAL == []
    execution.enqueue(AT, stream=1)
    assert [call[0] for call in JOURNAL[:3]] == ["create_runtime_cache", "deserialize", "create_execution_context"]


def test_an_implicit_cache_is_saved_when_it_is_replaced(opened_rtx: Opener, tmp_path: Path) -> None:
    execution = executed(opened_rtx, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    execution.runtime_settings = RuntimeSettings(runtime_cache=tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == blob(OWN)
    execution.enqueue(AT, stream=1)
    execution.close()
    del execution
    gc.collect()
    assert (tmp_path / "b").read_bytes() == blob(OWN)


def test_an_implicit_cache_outlives_other_changes(opened_rtx: Opener, tmp_path: Path) -> None:
    execution = executed(opened_rtx, tmp_path / "a")
    execution.runtime_settings = execution.runtime_settings.merge(cuda_graph_strategy="whole_graph_capture")
    execution.enqueue(AT, stream=1)
    assert JOURNAL.count(("create_runtime_cache",)) == 1
    assert not (tmp_path / "a").exists()


def test_an_implicit_cache_is_saved_when_its_owner_is_collected(opened_rtx: Opener, tmp_path: Path) -> None:
    execution = executed(opened_rtx, tmp_path / "a")
    del execution
    gc.collect()
    assert (tmp_path / "a").read_bytes() == blob(OWN)


AT_EXIT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from runtime import stand_in
sys.modules["tensorrt_rtx"] = stand_in
from hatch_tensoracle.runtime import RuntimeCache, RuntimeSettings, EngineHandle
from hatch_tensoracle.runtime.distribution import distribution
tensorrt = distribution("tensorrt_rtx")
tensors = dict(x=stand_in.tensor("INPUT", (5,)), y=stand_in.tensor("OUTPUT", (5,)))
runtime = stand_in.Runtime(tensorrt.logger)
engine = runtime.deserialize_cuda_engine(stand_in.plan(tensors))
handle = EngineHandle(runtime=runtime, engine=engine, distribution=tensorrt, path=Path("x"), was_built=True)
execution = handle.create_execution()
execution.runtime_settings = RuntimeSettings(runtime_cache={cache})
execution.enqueue(dict(x=256, y=512), stream=1)
"""


@pytest.mark.parametrize("cache", ["{path!r}", "RuntimeCache({path!r}, autosave_on_del=True)"], ids=["implicit", "own"])
def test_a_cache_is_saved_at_exit_in_silence(tmp_path: Path, cache: str) -> None:
    path = str(tmp_path / "a")
    done = run_code(AT_EXIT.format(tests=str(Path(__file__).parents[1]), cache=cache.format(path=path)))
    assert (done.status, done.stderr) == (0, "")
    assert (tmp_path / "a").read_bytes() == blob(OWN)


def test_a_cache_that_cannot_be_saved_at_exit_is_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "file" / "a")
    (tmp_path / "file").write_bytes(b"")
    done = run_code(AT_EXIT.format(tests=str(Path(__file__).parents[1]), cache=repr(path)))
    assert done.status == 0
    assert "the runtime cache cannot be saved" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_of_one_s_own_is_saved_only_when_told(opened_rtx: Opener, tmp_path: Path) -> None:
    cache = RuntimeCache(tmp_path / "a")
    executed(opened_rtx, cache).close()
    assert cache.save() == len(blob(OWN))
    assert cache.save() == 0  # nothing new
    assert (tmp_path / "a").read_bytes() == blob(OWN)
    (tmp_path / "a").unlink()
    del cache
    gc.collect()
    assert not (tmp_path / "a").exists()


def test_a_saved_cache_is_on_the_disk(opened_rtx: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has its name, and its name is when `save` returns: it survives a loss of power."""
    cache = RuntimeCache(tmp_path / "cache")
    executed(opened_rtx, cache)
    synced: list[tuple[Path, bool]] = []

    def sync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), (tmp_path / "cache").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    cache.save()
    (aside, was_named), directory = synced
    assert (aside.parent, was_named) == (tmp_path, False)
    assert directory == (tmp_path, True)


def test_a_cache_of_one_s_own_is_saved_when_it_goes_if_so_made(opened_rtx: Opener, tmp_path: Path) -> None:
    cache = RuntimeCache(tmp_path / "a", autosave_on_del=True)
    executed(opened_rtx, cache).close()
    gc.collect()
    assert not (tmp_path / "a").exists()
    del cache
    gc.collect()
    assert (tmp_path / "a").read_bytes() == blob(OWN)


def test_what_is_loaded_is_held_and_then_added(opened_rtx: Opener, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(blob("file"))
    cache = RuntimeCache(tmp_path / "a")
    assert cache.load() == len(blob("file"))
    assert cache.load(io.BytesIO(blob("stream"))) == len(blob("stream"))
    (tmp_path / "a").unlink()
    executed(opened_rtx, cache)
    assert cache.load(io.BytesIO(blob("later"))) > 0
    stream = io.BytesIO()
    assert cache.save(stream) == len(stream.getvalue())
    assert stream.getvalue() == blob("file", "stream", "later", OWN)


def test_a_text_stream_is_refused(opened_rtx: Opener) -> None:
    cache, text = RuntimeCache(), io.StringIO("abc")
    with pytest.raises(TypeError, match=re.escape(f"{text!r} is no binary stream: it gave str")):
        cache.load(text)  # type: ignore[arg-type]
    executed(opened_rtx, cache)
    with pytest.raises(TypeError, match=re.escape(f"{text!r} is no binary stream")):
        cache.save(text)  # type: ignore[arg-type]
    assert cache.load(Mock(read=lambda: bytearray(blob("k")))) == len(blob("k"))
    assert live(cache).kernels == {"k", OWN}


def test_a_cache_s_path_is_one() -> None:
    with pytest.raises(TypeError, match="RuntimeCache: path must be a path, not 3"):
        RuntimeCache(3)  # type: ignore[arg-type]


def test_a_cache_without_a_file_is_saved_to_streams_only(opened_rtx: Opener) -> None:
    cache = RuntimeCache()
    assert cache.load() == 0
    assert cache.save(io.BytesIO()) == 0
    executed(opened_rtx, cache)
    with pytest.raises(ValueError, match="in memory only: give the stream"):
        cache.save()


def test_what_was_loaded_can_be_saved_before_the_first_use(opened_rtx: Opener) -> None:
    cache, stream = RuntimeCache(), io.BytesIO()
    cache.load(io.BytesIO(blob("a")))
    assert cache.save(stream) == len(blob("a"))
    assert stream.getvalue() == blob("a")
    cache.load(io.BytesIO(blob("b")))
    with pytest.raises(ValueError, match="holds 2 that were loaded: save it after its first use"):
        cache.save(stream)
    executed(opened_rtx, cache)
    stream = io.BytesIO()
    cache.save(stream)
    assert stream.getvalue() == blob("a", "b", OWN)


def test_the_cache_outlives_the_context(opened_rtx: Opener) -> None:
    """The stand-in's context looks for it when it goes."""
    execution = executed(opened_rtx, RuntimeCache())
    JOURNAL.clear()
    execution.runtime_settings = RuntimeSettings()
    gc.collect()
    assert JOURNAL == []  # both are in use until the next
    execution.enqueue(AT, stream=1)
    gone = [call[1] for call in JOURNAL if call[0] == "del"]
    assert gone == ["IExecutionContext", "IRuntimeCache"]
    execution.runtime_settings = RuntimeSettings(runtime_cache=RuntimeCache())
    execution.enqueue(AT, stream=1)
    JOURNAL.clear()
    execution.runtime_settings = RuntimeSettings()
    del execution
    gc.collect()
    gone = [call[1] for call in JOURNAL if call[0] == "del"]
    assert gone == ["IExecutionContext", "ICudaEngine", "Runtime", "IRuntimeCache"]


def test_threads_make_one_cache(tmp_path: Path) -> None:
    cache = RuntimeCache(tmp_path / "a")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(live(cache))) for _ in range(8)]
    JOURNAL.clear()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 1
    assert JOURNAL.count(("create_runtime_cache",)) == 1


@pytest.mark.parametrize("is_live", [False, True])
def test_a_cache_is_pickled_with_its_contents_and_without_tensorrt_s(tmp_path: Path, *, is_live: bool) -> None:
    cache = RuntimeCache(tmp_path / "a")
    cache.load(io.BytesIO(blob("k")))
    if is_live:
        live(cache)
    copied = pickle.loads(pickle.dumps(cache))  # noqa: S301 - our own
    assert copied.path == cache.path
    assert live(copied) is not live(cache)
    stream = io.BytesIO()
    copied.save(stream)
    assert stream.getvalue() == blob("k")


GPU = GpuIdentity(
    name="NVIDIA L4 / 24GB",
    compute_capability="8.9",
    total_memory=1,
    multiprocessors=1,
    l2_bytes=1,
    memory_bus_width=1,
)


@pytest.mark.usefixtures("rtx")
def test_the_default_cache_is_the_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_module, "current_gpu", lambda: GPU)
    os.makedirs(tmp_path / "kernels", 0o755)  # noqa: PTH103 - with a mode
    path = RuntimeCache.default().path
    assert path is not None
    assert path.parent == tmp_path / "kernels"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_kind_of_gpu_and_each_version_has_a_default_cache_of_its_own(
    rtx: Distribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path))
    others = [dataclasses.replace(GPU, name="NVIDIA B200"), dataclasses.replace(GPU, compute_capability="9.0")]
    paths = []
    for gpu, version in [*((gpu, rtx.version) for gpu in (GPU, *others)), (GPU, "1.8.0.1")]:
        monkeypatch.setattr(cache_module, "current_gpu", lambda gpu=gpu: gpu)
        monkeypatch.setattr(cache_module, "distribution", lambda _, v=version: dataclasses.replace(rtx, version=v))
        path = RuntimeCache.default().path
        assert path is not None
        paths.append(path)
    assert paths[0] == tmp_path / "kernels" / f"{rtx.version}-NVIDIA-L4-24GB-8.9.cache"
    assert len(set(paths)) == 4
    monkeypatch.setattr(cache_module, "current_gpu", lambda: GPU)
    for path, kernel in zip(paths[::3], "ab", strict=True):
        path.write_bytes(blob(kernel))
    assert live(RuntimeCache.default()).kernels == {"b"}


@pytest.mark.parametrize("lacks", ["directory", "GPU", "TensorRT-RTX"])
def test_without_a_place_of_its_own_the_default_cache_is_in_memory(
    lacks: str, rtx: Distribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "file" if lacks == "directory" else tmp_path))
    monkeypatch.setattr(cache_module, "current_gpu", Mock(side_effect=GpuError("none") if lacks == "GPU" else [GPU]))
    missing = ValueError("tensorrt_rtx is not installed")
    given = Mock(side_effect=missing if lacks == "TensorRT-RTX" else [rtx])
    monkeypatch.setattr(cache_module, "distribution", given)
    assert RuntimeCache.default().path is None
    assert "the runtime cache is in memory only" in caplog.text


# Files


def test_writers_of_one_file_keep_what_the_other_has_saved(tmp_path: Path) -> None:
    caches = [RuntimeCache(tmp_path / "a") for _ in range(3)]
    for number, cache in enumerate(caches):
        live(cache).kernels.add(str(number))
    for cache in caches:
        cache.save()
    assert (tmp_path / "a").read_bytes() == blob("0", "1", "2")


def test_if_tensorrt_replaced_what_it_has_the_last_writer_s_is_whole(tmp_path: Path) -> None:
    caches = [RuntimeCache(tmp_path / "a") for _ in range(2)]
    for number, cache in enumerate(caches):
        live(cache).kernels.add(str(number))
    FAILING.add(("replacing",))
    try:
        for cache in caches:
            cache.save()
    finally:
        FAILING.clear()
    assert (tmp_path / "a").read_bytes() == blob("1")


def test_what_another_saved_for_another_gpu_is_replaced(tmp_path: Path) -> None:
    cache = RuntimeCache(tmp_path / "a")
    live(cache).kernels.add("k")
    (tmp_path / "a").write_bytes(b"another GPU's")
    cache.save()
    assert (tmp_path / "a").read_bytes() == blob("k")


def test_a_cache_that_tensorrt_refuses_is_set_aside(
    opened_rtx: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").write_bytes(b"damaged")
    execution = executed(opened_rtx, tmp_path / "a")
    assert (tmp_path / "a.refused").read_bytes() == b"damaged"
    assert f"TensorRT refuses the runtime cache {tmp_path / 'a'}, which is now {tmp_path / 'a.refused'}" in caplog.text
    execution.runtime_settings = RuntimeSettings()
    assert (tmp_path / "a").read_bytes() == blob(OWN)


@pytest.mark.parametrize("trouble", ["locked", "directory", "full"])
def test_a_save_that_fails_is_logged_and_no_more(
    opened_rtx: Opener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: str,
) -> None:
    path = tmp_path / "a"
    execution = executed(opened_rtx, path)
    with contextlib.ExitStack() as stack:
        if trouble == "locked":
            monkeypatch.setattr(file_module, "_LOCK_SECONDS", 0)
            stack.enter_context(FileLock(f"{path}.lock"))
        elif trouble == "directory":
            path.mkdir()
        else:

            def full(*_: object, **__: object) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(file_module, "write_whole", full)
        with caplog.at_level(logging.WARNING):
            execution.runtime_settings = RuntimeSettings()
    assert "the runtime cache cannot be saved" in caplog.text
    execution.enqueue(AT, stream=1)


def test_a_file_that_cannot_be_read_is_no_cache(
    opened_rtx: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").mkdir()
    executed(opened_rtx, tmp_path / "a")
    assert "the runtime cache cannot be read" in caplog.text
