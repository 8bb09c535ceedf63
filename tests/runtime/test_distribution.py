"""TensorRT is chosen in one place: what is installed, or what the caller names."""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import pytest

from hatch_tensoracle.runtime import distribution as subject
from hatch_tensoracle.runtime.distribution import Distribution, distribution, distribution_of


class Severity:
    """One of TensorRT's."""

    def __init__(self, name: str) -> None:
        self.name = name


class ILogger:
    """TensorRT's base class."""


def fake_module(name: str, version: str) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(__version__=version, __file__=f"/site/{name}/__init__.py", ILogger=ILogger)
    return module


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> object:
    """A function that makes these packages, and no others, the installed ones."""

    def make(*names: str) -> None:
        for known in {module for modules in subject.DISTRIBUTIONS.values() for module in modules}:
            monkeypatch.delitem(sys.modules, known, raising=False)
        for name in names:
            monkeypatch.setitem(sys.modules, name, fake_module(name, "11.0"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    return make


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
def test_the_one_that_is_installed_is_taken(install: object, name: str) -> None:
    assert callable(install)
    install(name)
    assert distribution().name == name
    assert distribution() is distribution(name)


def test_of_two_the_caller_says_which(install: object) -> None:
    assert callable(install)
    install("tensorrt", "tensorrt_rtx")
    with pytest.raises(ValueError, match="tensorrt and tensorrt_rtx are installed: say which"):
        distribution()
    assert distribution("tensorrt_rtx").name == "tensorrt_rtx"
    assert str(distribution("tensorrt")) == "tensorrt 11.0 (/site/tensorrt/__init__.py)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "no TensorRT is installed: pip install"),
        ("tensorrt", r"tensorrt is not installed: pip install hatch-tensoracle\[tensorrt\]"),
        ("tensorrt_rtx", r"tensorrt_rtx is not installed: pip install hatch-tensoracle\[rtx\]"),
        ("tensorrt_lean", "tensorrt_lean is not installed: pip install tensorrt-lean"),
        ("trt", "must be one of tensorrt, tensorrt_rtx, tensorrt_lean, not 'trt'"),
    ],
)
def test_what_is_not_there_is_said(install: object, name: str | None, message: str) -> None:
    assert callable(install)
    install()
    with pytest.raises(ValueError, match=message):
        distribution(name)


def test_a_directory_of_its_name_is_none(install: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(install)
    install("tensorrt_rtx")
    (tmp_path / "tensorrt").mkdir()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: PathFinder.find_spec(name, [str(tmp_path)]))
    assert distribution().name == "tensorrt_rtx"
    with pytest.raises(ValueError, match="tensorrt is not installed"):
        distribution("tensorrt")


def test_a_lean_runtime_is_taken_by_name_only(install: object) -> None:
    assert callable(install)
    install("tensorrt_lean_bindings")
    with pytest.raises(ValueError, match="no TensorRT is installed"):
        distribution()
    assert distribution("tensorrt_lean").module.__name__ == "tensorrt_lean_bindings"


def test_an_object_tells_whose_it_is(install: object) -> None:
    assert callable(install)
    install("tensorrt", "tensorrt_rtx")
    network = type("INetworkDefinition", (), {"__module__": "tensorrt_rtx_bindings.tensorrt_rtx"})()
    assert distribution_of(network).name == "tensorrt_rtx"


@pytest.fixture
def tensorrt(install: object) -> Distribution:
    """One that is installed."""
    assert callable(install)
    install("tensorrt")
    return distribution()


def test_warnings_and_errors_are_collected_while_somebody_listens(tensorrt: Distribution) -> None:
    log = tensorrt.logger.log
    log(Severity("ERROR"), "before")
    with tensorrt.messages() as outer:
        log(Severity("WARNING"), "first")
        with tensorrt.messages() as inner:
            log(Severity("INTERNAL_ERROR"), "second")
            log(Severity("INFO"), "not this one")
    log(Severity("ERROR"), "after")
    assert (list(outer), list(inner)) == (["first", "second"], ["second"])


def test_the_last_20_messages_are_kept(tensorrt: Distribution) -> None:
    with tensorrt.messages() as messages:
        for number in range(30):
            tensorrt.logger.log(Severity("ERROR"), str(number))
    assert list(messages) == [str(number) for number in range(10, 30)]


def test_messages_of_other_threads_are_collected(tensorrt: Distribution) -> None:
    with tensorrt.messages() as messages:
        thread = threading.Thread(target=tensorrt.logger.log, args=(Severity("ERROR"), "from there"))
        thread.start()
        thread.join()
    assert list(messages) == ["from there"]


class Closing(str):
    """A message that ends a collection when it is dropped, as suddenly as the garbage collector would."""

    __slots__ = ("collection",)
    collection: AbstractContextManager[deque[str]]

    def __del__(self) -> None:
        self.collection.__exit__(None, None, None)


def test_a_collection_that_ends_while_a_message_is_added_blocks_nobody(
    tensorrt: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hatch_tensoracle.tensorrt"), "disabled", True)  # records keep messages
    kept: list[str] = []

    def add() -> None:
        with tensorrt.messages() as messages:
            first = Closing("first")
            first.collection = tensorrt.messages()
            tensorrt.logger.log(Severity("ERROR"), first)
            first.collection.__enter__()
            del first
            for number in range(20):  # the last one pushes it out
                tensorrt.logger.log(Severity("ERROR"), str(number))
        kept.extend(messages)

    thread = threading.Thread(target=add, daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert kept == [str(number) for number in range(20)]


def test_threads_that_ask_at_once_get_the_same_object(install: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(install)
    install("tensorrt")

    class Slow:
        def __init__(self) -> None:
            time.sleep(0.05)

    monkeypatch.setattr(sys.modules["tensorrt"], "ILogger", Slow)
    with ThreadPoolExecutor(8) as pool:
        assert len({id(found) for found in list(pool.map(lambda _: distribution("tensorrt"), range(8)))}) == 1


def test_messages_go_to_pythons_logging(tensorrt: Distribution, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hatch_tensoracle.tensorrt"):
        for severity in ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"):
            tensorrt.logger.log(Severity(severity), "100% sure")
    expected = [logging.ERROR, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (level, "100% sure") for level in expected
    ]
