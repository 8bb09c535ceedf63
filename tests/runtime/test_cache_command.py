"""`hatch-tensoracle cache`: what it prints, what it removes, and how it exits."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_tensoracle.cli import main
from hatch_tensoracle.runtime.cache import CachedEngine, EngineCache
from hatch_tensoracle.runtime.digests import weight_digests
from hatch_tensoracle.runtime.identity import identity_of
from runtime.conditions import conditions, plan_of

OLD, NEW = conditions(name="old"), conditions(name="new")


@pytest.fixture
def cache(cache: EngineCache, tmp_path: Path) -> EngineCache:
    """Two engines, of which one was not used for an hour, and what is known of one file of weights."""
    for wanted, age in ((OLD, 3600), (NEW, 0)):
        with cache.building(wanted):
            path = cache.save(wanted, plan_of(1, 1 << 20), ()).path
        os.utime(path, (time.time() - age,) * 2)
    (tmp_path / "weights").write_bytes(b"weights")
    os.utime(tmp_path / "weights", (1, 1))
    weight_digests([tmp_path / "weights"])
    return cache


def kept(cache: EngineCache) -> list[str]:
    return [engine.identity for engine in cache.engines()]


def known_weights(cache: EngineCache) -> int:
    return len(list((cache.directory.parent / "weights").iterdir()))


def test_list_shows_what_is_saved(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    header, old, new, summary = capsys.readouterr().out.splitlines()
    assert header.split() == ["IDENTITY", "SIZE", "LAST", "USED", "NAME", "GPU", "TENSORRT"]
    assert old.startswith(f"{identity_of(OLD)[:12]}  1.0 MiB  ")
    assert old.endswith("  old 1 fp16  NVIDIA GeForce RTX 4090  tensorrt 11.2.1.2")
    assert "  new 1 fp16  " in new
    assert summary == f"{cache.directory}: 2 engines, 2.0 MiB"


def test_list_of_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path))
    assert main(["cache", "list"]) == main(["cache", "verify"]) == main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/engines: 0 engines, 0 B\n"


def test_list_for_programs(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["version"], report["directory"]) == (1, str(cache.directory))
    assert [engine["identity"] for engine in report["engines"]] == [identity_of(OLD), identity_of(NEW)]
    assert report["engines"][0]["header"]["conditions"] == OLD


@pytest.mark.usefixtures("cache")
def test_info_shows_the_conditions_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "info", identity_of(NEW)[:8]]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["header"]["conditions"] == NEW
    assert report["header"]["plan_size"] == 1 << 20


@pytest.mark.usefixtures("cache")
def test_an_identity_that_is_none_or_several_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "info", "xyz"]) == 2
    assert "0 engines" in capsys.readouterr().err
    assert main(["cache", "clear", ""]) == 2
    assert "2 engines" in capsys.readouterr().err


def test_verify_names_the_damaged(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "verify"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ok", "ok"]
    path = cache.directory / f"{identity_of(NEW)}.engine"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert main(["cache", "verify"]) == 1
    failed = capsys.readouterr().out.splitlines()[-1]
    assert failed.startswith(f"FAIL {path}: has a damaged plan")
    assert main(["cache", "verify", identity_of(OLD)]) == 0


def test_damaged_headers_are_shown_and_can_be_removed(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    (cache.directory / f"{identity_of(NEW)}.engine").write_bytes(b"nonsense")
    assert main(["cache", "list"]) == 0
    assert "(damaged)" in capsys.readouterr().out
    assert main(["cache", "info", identity_of(NEW)]) == 1
    assert main(["cache", "clear", identity_of(NEW)[:12]]) == 0
    assert kept(cache) == [identity_of(OLD)]


def a_directory(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_file_of_somebody_else(path: Path) -> None:
    path.write_bytes(b"nonsense")
    path.chmod(0)


@pytest.mark.parametrize("make", [a_directory, a_pipe, a_file_of_somebody_else])
def test_what_cannot_be_read_is_listed_as_damaged_and_stops_nothing(
    cache: EngineCache, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    odd = cache.directory / "odd.engine"
    make(odd)
    assert main(["cache", "list"]) == 0
    assert "(damaged)" in capsys.readouterr().out
    assert main(["cache", "info", "odd"]) == 1
    assert main(["cache", "verify"]) == 1
    assert f"FAIL {odd}: " in capsys.readouterr().out
    main(["cache", "prune", "--max-size", "0"])
    assert set(kept(cache)) <= {"odd"}
    assert odd.is_dir() == (make is a_directory)


@pytest.mark.parametrize(
    ("size", "left"),
    [("2MiB", 1), ("2.09MB", 1), ("2.2MB", 2), ("1GB", 2), ("1.5 MiB", 1), ("0", 0), ("1000000", 0)],
)
def test_prune_removes_what_was_not_used_for_longest(cache: EngineCache, size: str, left: int) -> None:
    assert main(["cache", "prune", "--max-size", size]) == 0
    assert kept(cache) == [identity_of(OLD), identity_of(NEW)][2 - left :]


def test_prune_forgets_weights_that_are_gone(cache: EngineCache, tmp_path: Path) -> None:
    assert main(["cache", "prune", "--max-size", "1TB"]) == 0
    assert known_weights(cache) == 1
    (tmp_path / "weights").unlink()
    assert main(["cache", "prune", "--max-size", "1TB"]) == 0
    assert known_weights(cache) == 0


@pytest.mark.parametrize("size", ["", "lots", "3GiBi", "-1", "20G"])
def test_a_size_that_is_none(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["cache", "prune", f"--max-size={size}"])
    assert caught.value.code == 2
    assert "is not like 20GiB" in capsys.readouterr().err


def test_clear_removes_all(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.count("removed ") == 2
    assert kept(cache) == []
    assert known_weights(cache) == 0


def test_clear_removes_empty_files(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    (cache.directory / "empty.engine").touch()
    (cache.directory / ".left.engine-part").touch()
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.count("removed ") == 3
    assert [path.name for path in cache.directory.iterdir()] == ["locks"]


def test_clear_takes_no_offence_at_an_engine_that_is_opened_meanwhile(
    cache: EngineCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove = EngineCache.remove

    def opened_before(cache: EngineCache, engine: CachedEngine) -> bool:
        monkeypatch.setattr(EngineCache, "remove", remove)
        os.utime(engine.path)
        return cache.remove(engine)

    monkeypatch.setattr(EngineCache, "remove", opened_before)
    assert main(["cache", "clear"]) == 0
    assert "in use" not in capsys.readouterr().out
    assert kept(cache) == []


def test_clear_says_which_engine_is_being_built(cache: EngineCache, capsys: pytest.CaptureFixture[str]) -> None:
    statuses = []
    with cache.building(NEW):
        thread = threading.Thread(target=lambda: statuses.append(main(["cache", "clear"])))
        thread.start()
        thread.join()
    assert statuses == [1]
    assert f"in use, or not to be removed: {cache.directory / identity_of(NEW)}.engine" in capsys.readouterr().out
    assert kept(cache) == [identity_of(NEW)]
