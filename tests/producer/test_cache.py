"""The cubin cache: what is known is not compiled again, and what is damaged is not used."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest
from helpers import kernels
from helpers.projects import tree

from hatch_tensoracle.targets import parse_target
from tensoracle_producer import KernelSpec, Pointer, compile_bundle, schedule
from tensoracle_producer import cache as cache_module
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.compiler import Compiled
from tensoracle_producer.toolchain import find_toolchain
from tensoracle_producer.variant import make_variants

SPEC = KernelSpec(kernels.scaled, name="scaled", arguments=[Pointer("fp32")])


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(schedule, "_PATIENCE", 3600.0)  # or a slow machine would have more lines of progress
    return tmp_path / "cache" / "cubins"


def lines_of(spec: KernelSpec, directory: Path) -> list[str]:
    """Compile for one target and return what progress says."""
    lines: list[str] = []
    compile_bundle([spec], ["sm86"], directory, progress=lines.append)
    return lines


def test_a_second_build_compiles_nothing_and_gives_the_same_bytes(tmp_path: Path) -> None:
    assert lines_of(SPEC, tmp_path / "cold")[0].startswith("[1/1] scaled#0 sm86: ")
    assert lines_of(SPEC, tmp_path / "warm") == ["1 of 1 are known from earlier builds"]
    assert tree(tmp_path / "cold") == tree(tmp_path / "warm")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(dataclasses.replace(SPEC, constants={"FACTOR": 3.0}), id="constant"),
        pytest.param(dataclasses.replace(SPEC, num_warps=8), id="option"),
        pytest.param(dataclasses.replace(SPEC, arguments=[Pointer("fp32", divisible_by=16)]), id="assumption"),
        pytest.param(dataclasses.replace(SPEC, arguments=[Pointer("fp64")]), id="type"),
    ],
)
def test_what_changes_the_kernel_is_compiled_again(tmp_path: Path, changed: KernelSpec) -> None:
    lines_of(SPEC, tmp_path / "bundle")
    assert lines_of(changed, tmp_path / "bundle")[0].startswith("[1/1] ")


def test_other_tools_do_not_see_what_these_compiled(tmp_path: Path) -> None:
    lines_of(SPEC, tmp_path / "bundle")
    toolchain = find_toolchain()
    (variant,) = make_variants([SPEC])
    job = variant.job(parse_target("sm86"), toolchain.ptxas)
    assert CubinCache(toolchain).get([job]) != [None]
    assert CubinCache(dataclasses.replace(toolchain, ptxas_version="12.8.0")).get([job]) == [None]
    assert CubinCache(dataclasses.replace(toolchain, triton="0.0.0")).get([job]) == [None]


def test_ptx_is_remembered_with_its_cubin(tmp_path: Path, cache_directory: Path) -> None:
    def lines(directory: str) -> list[str]:
        said: list[str] = []
        compile_bundle([SPEC], ["sm86"], tmp_path / directory, ptx="sm86", progress=said.append)
        return said

    lines_of(SPEC, tmp_path / "without")
    known, compiled = lines("cold")
    assert known == "1 of 2 are known from earlier builds"  # the cubin alone does not do for PTX
    assert compiled.startswith("[1/1] scaled#0 sm86 PTX: ")
    assert lines("warm") == ["2 of 2 are known from earlier builds"]
    assert tree(tmp_path / "cold") == tree(tmp_path / "warm")
    assert len(list(cache_directory.iterdir())) == 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_file_is_compiled_again_and_replaced(tmp_path: Path, cache_directory: Path, damage: str) -> None:
    lines_of(SPEC, tmp_path / "cold")
    (file,) = cache_directory.iterdir()
    good = file.read_bytes()
    file.write_bytes({"truncated": good[:-1], "flipped": good[:-1] + bytes([good[-1] ^ 1]), "emptied": b""}[damage])
    assert lines_of(SPEC, tmp_path / "again")[0].startswith("[1/1] ")
    assert tree(tmp_path / "cold") == tree(tmp_path / "again")
    assert file.read_bytes() == good


def test_a_cache_that_cannot_be_written_is_said_and_does_no_harm(tmp_path: Path, cache_directory: Path) -> None:
    cache_directory.parent.mkdir()
    cache_directory.write_bytes(b"in the way")
    assert "the cache cannot be written" in lines_of(SPEC, tmp_path / "bundle")[-1]
    assert (tmp_path / "bundle" / "bundle.json").is_file()


def test_the_files_that_were_not_used_for_longest_go_first(
    monkeypatch: pytest.MonkeyPatch, cache_directory: Path
) -> None:
    toolchain = find_toolchain()
    cache = CubinCache(toolchain)
    (variant,) = make_variants([SPEC])
    jobs = [variant.job(parse_target(target), toolchain.ptxas) for target in ("sm75", "sm80", "sm86")]
    compiled = Compiled(cubin=bytes(1000), symbol="k", ptx_target="", dynamic_shared=0, scratch=0, seconds=0.0)
    for age, job in zip((3000, 2000, 1000), jobs, strict=True):
        before = set(cache_directory.glob("*"))
        cache.put(job, compiled)
        (file,) = set(cache_directory.iterdir()) - before
        os.utime(file, (time.time() - age,) * 2)
    assert cache.get(jobs[:1]) == [compiled]  # so the second is the oldest
    size = sum(file.stat().st_size for file in cache_directory.iterdir())
    monkeypatch.setattr(cache_module, "_LIMIT", size - 1)
    cache = CubinCache(toolchain)
    cache.close()
    assert [found is not None for found in cache.get(jobs)] == [True, False, True]
