"""Bundles by every release of Triton that is supported inspect clean, and refuse what the newest refuses.

`pytest -m every_triton tests/producer/test_every_triton.py` installs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tools import run

from hatch_tensoracle import inspect_bundle

pytestmark = pytest.mark.every_triton
VERSIONS = ("3.6.0", "3.7.0", "3.8.0", "3.9.0")
SCRIPT = """
import json, sys
import triton
from triton import language as tl
from helpers import kernels
from hatch_tensoracle.bundle import ELEMENT_SIZES, SCALAR_SIZES
from tensoracle_producer import CompileError, Config, KernelSpec, Pointer, Scalar, compile_bundle

def fill(type_):
    arguments = [Pointer(type_), Scalar(type_), Scalar("i32")]
    return KernelSpec(kernels.fill, name=f"fill_{type_}", arguments=arguments, constants={"BLOCK": 64})

def copy(element):
    arguments = [Pointer(element, divisible_by=16), Pointer(element), Scalar("i64")]
    return KernelSpec(kernels.copy, name=f"copy_{element}", arguments=arguments, constants={"BLOCK": 64})

pointer = [Pointer("fp32")]
chosen = {"SCALE": 2.5, "MODE": "double", "TYPE": tl.float16, "ROUND": True, "F": kernels.square}
plain = {"SCALE": None, "MODE": "", "TYPE": tl.bfloat16, "ROUND": False, "F": tl.exp}
strided = {"name": "strided", "constants": {"BLOCK": 64}}
specs = [
    *map(fill, SCALAR_SIZES),
    *map(copy, sorted(ELEMENT_SIZES)),
    KernelSpec(kernels.strided, **strided, arguments=[*pointer * 2, Scalar("i32", equal_to=1)]),
    KernelSpec(kernels.strided, **strided, arguments=[*pointer * 2, Scalar("i32")]),
    KernelSpec(
        kernels.typed, name="typed", arguments=[*pointer, Scalar("i64", equal_to=1)], constants={"TYPE": tl.int64}
    ),
    KernelSpec(kernels.choose, name="chosen", arguments=pointer, constants=chosen),
    KernelSpec(kernels.choose, name="plain", arguments=pointer, constants=plain),
    KernelSpec(kernels.scaled, name="scaled", arguments=pointer, configs=[Config(BLOCK=128), Config(num_warps=8)]),
    KernelSpec(kernels.square_all, name="square", arguments=pointer),
    KernelSpec(kernels.shaped, name="shaped", arguments=pointer, constants={"SHAPE": (16, (1, 2), tl.float16)}),
    KernelSpec(kernels.nothing, name="nothing", arguments=[], constants={"N": 1}),
    KernelSpec(kernels.matmul, name="matmul", arguments=[Pointer("fp16")] * 2 + pointer, constants={"N": 64}),
]
compile_bundle(specs, ["sm89", "sm90", "sm100", "sm120"], sys.argv[1], ptx="sm89")

to_fp8 = KernelSpec(
    kernels.convert, name="convert", arguments=[Pointer("fp32"), Pointer("fp8e4nv")], constants={"BLOCK": 64}
)
described = KernelSpec(kernels.described, name="described", arguments=[Pointer("fp32"), Scalar("i32")])
undeclared = KernelSpec(kernels.undeclared, name="undeclared", arguments=pointer)
bad = KernelSpec(kernels.bad_assembly, name="bad", arguments=[Pointer("i32")])
aborts = KernelSpec(kernels.aborts, name="aborts", arguments=[Pointer("i32")])
misspelt = KernelSpec(kernels.misspelt, name="misspelt", arguments=pointer)
causes = {}
for spec in (to_fp8, described, undeclared, bad, aborts, misspelt):
    try:
        compile_bundle([spec], ["sm86", "sm90"], sys.argv[1] + "-refused")
    except CompileError as error:
        causes[spec.name] = {failure.target: failure.cause for failure in error.failures}
try:
    KernelSpec(triton.autotune([triton.Config({"BLOCK": 64})], key=[])(kernels.copy), name="copy", arguments=pointer)
except TypeError as error:
    causes["autotuned"] = str(error)
print(json.dumps({"version": triton.__version__, "causes": causes}))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_bundles_inspect_clean_and_refusals_are_told(tmp_path: Path, version: str) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*command, f"triton=={version}"], check=True, capture_output=True)
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(site), str(here), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    told = json.loads(run(sys.executable, "-c", SCRIPT, tmp_path / "bundle", env={"PYTHONPATH": path}))
    assert told["version"] == version
    bundle = inspect_bundle(tmp_path / "bundle")
    assert bundle.tools["triton"] == version
    assert len(bundle.entries) == 40
    causes = told["causes"]
    assert "fp8e4nv not supported" in causes["convert"]["sm86"]
    assert "sm90" not in causes["convert"]
    assert "bytes of scratch memory" in causes["described"]["sm90"]
    assert "sm86" not in causes["described"]
    assert "tl.make_tensor_descriptor makes one of it" in causes["undeclared"]["sm86"]
    assert "Not a name of any known instruction: 'nonsense'" in causes["bad"]["sm86"]
    assert "the compiler's process" in causes["aborts"]["sm86"]
    assert "undefined_name is not defined" in causes["misspelt"]["sm86"]
    assert "configs=[Config(BLOCK=64, num_warps=4, num_stages=3)]" in causes["autotuned"]
