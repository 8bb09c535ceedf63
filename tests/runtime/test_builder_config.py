"""Builder settings become TensorRT's. What only `tensorrt` has is tried on a record of calls: it needs a GPU."""

from __future__ import annotations

import enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_tensoracle.runtime import BuilderSettings, EngineBuildError
from hatch_tensoracle.runtime.builder_config import check_settings, configure, save_timing_cache


class HardwareCompatibilityLevel(enum.Enum):
    """Of a release before SAME_COMPUTE_CAPABILITY."""

    NONE = 0
    AMPERE_PLUS = 1


class PreviewFeature(enum.Enum):
    """Of a release with aliasing."""

    ALIASED_PLUGIN_IO_10_03 = 0


class BuilderFlag(enum.Enum):
    """Those that are used."""

    TF32 = 0
    VERSION_COMPATIBLE = 1


class MemoryPoolType(enum.Enum):
    """The one that is used."""

    WORKSPACE = 0


TRT = SimpleNamespace(
    BuilderFlag=BuilderFlag,
    HardwareCompatibilityLevel=HardwareCompatibilityLevel,
    MemoryPoolType=MemoryPoolType,
    PreviewFeature=PreviewFeature,
)


class TimingCache:
    """What was timed, as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def serialize(self) -> bytes:
        """As TensorRT's."""
        return self.data + b"+"


class Config:
    """Records what it is told. A timing cache that says `elsewhere` is another GPU's, one that is `damaged` is none."""

    def __init__(self) -> None:
        self.__dict__["calls"] = []
        self.__dict__["cache"] = None

    def __setattr__(self, name: str, value: object) -> None:
        self.calls.append((name, value))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))

    def create_timing_cache(self, data: bytes) -> TimingCache | None:
        """As TensorRT's."""
        return None if data == b"damaged" else TimingCache(data)

    def set_timing_cache(self, cache: TimingCache, *, ignore_mismatch: bool) -> bool:
        """As TensorRT's."""
        assert not ignore_mismatch
        self.__dict__["cache"] = cache
        return cache.data != b"elsewhere"

    def get_timing_cache(self) -> TimingCache:
        """As TensorRT's."""
        found: TimingCache = self.cache
        return found


def configured(libraries: list[str], **settings: Any) -> list[tuple[Any, ...]]:
    config = Config()
    configure(config, BuilderSettings(**settings), libraries, TRT)
    return list(config.calls)


def test_tf32_is_cleared_and_nothing_else_is_touched() -> None:
    assert configured(["libx.so"]) == [("clear_flag", BuilderFlag.TF32)]


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        ({"workspace_limit": 0}, ("set_memory_pool_limit", MemoryPoolType.WORKSPACE, 0)),
        ({"optimization_level": 0}, ("builder_optimization_level", 0)),
        ({"version_compatible": True}, ("set_flag", BuilderFlag.VERSION_COMPATIBLE)),
        (
            {"hardware_compatibility": "ampere_plus"},
            ("hardware_compatibility_level", HardwareCompatibilityLevel.AMPERE_PLUS),
        ),
        ({"aliased_plugin_io": True}, ("set_preview_feature", PreviewFeature.ALIASED_PLUGIN_IO_10_03, True)),
        ({"embed_plugins": True}, ("plugins_to_serialize", ["libx.so"])),
    ],
)
def test_a_setting_becomes_a_call(settings: dict[str, Any], call: tuple[Any, ...]) -> None:
    assert configured(["libx.so"], **settings) == [("clear_flag", BuilderFlag.TF32), call]


def refused(**settings: Any) -> str:
    tensorrt: Any = SimpleNamespace(name="tensorrt", module=TRT)
    with pytest.raises(ValueError, match="BuilderSettings: ") as caught:
        check_settings(BuilderSettings(**settings), tensorrt)
    return str(caught.value)


def test_what_tensorrt_lacks_is_refused_by_name() -> None:
    assert "compute_capabilities = ('sm89',): " in refused(compute_capabilities=("sm89",))
    assert "embed_plugins = True: " in refused(embed_plugins=True)
    assert "hardware_compatibility = 'same_compute_capability': " in refused(
        hardware_compatibility="same_compute_capability"
    )


def test_what_tensorrt_has_is_let_through() -> None:
    settings = BuilderSettings(
        timing_cache="a",
        version_compatible=True,
        embed_plugins=True,
        hardware_compatibility="ampere_plus",
        aliased_plugin_io=True,
    )
    tensorrt: Any = SimpleNamespace(name="tensorrt", module=TRT)
    check_settings(settings, tensorrt)


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
def test_aliasing_that_a_release_lacks_is_refused(name: str) -> None:
    tensorrt: Any = SimpleNamespace(
        name=name, module=SimpleNamespace(PreviewFeature=(), ComputeCapability=SimpleNamespace(__members__={}))
    )
    with pytest.raises(ValueError, match="aliased_plugin_io = True"):
        check_settings(BuilderSettings(aliased_plugin_io=True), tensorrt)


def test_a_timing_cache_is_made_read_and_updated(tmp_path: Path) -> None:
    settings = BuilderSettings(timing_cache=tmp_path / "below" / "timings")
    for expected in (b"+", b"++"):
        config = Config()
        configure(config, settings, [], TRT)
        save_timing_cache(config, settings)
        assert (tmp_path / "below" / "timings").read_bytes() == expected


def test_a_timing_cache_that_cannot_be_written_is_named_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = BuilderSettings(timing_cache=tmp_path / "file" / "timings")
    config = Config()
    configure(config, settings, [], TRT)
    with pytest.warns(RuntimeWarning, match=f"timings are not kept in {tmp_path / 'file' / 'timings'}: "):
        save_timing_cache(config, settings)


@pytest.mark.parametrize("content", [b"elsewhere", b"damaged"])
def test_a_timing_cache_that_does_not_fit_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "timings"
    file.write_bytes(content)
    with pytest.raises(EngineBuildError, match=f"{file} is no timing cache of this TensorRT and GPU"):
        configure(Config(), BuilderSettings(timing_cache=file), [], TRT)
    assert file.read_bytes() == content


def test_without_a_timing_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_timing_cache(Config(), BuilderSettings())
    assert list(tmp_path.iterdir()) == []
