"""PTX runs where no cubin does, and when a driver will not compile it, its compiler's own words are shown."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import kernels
from testing.child import in_child

from hatch_tensoracle.targets import Target
from hatch_tensoracle.testing.records import AttributeSetting, FunctionLoad, LibraryLoad
from launcher.launching import argument, session
from launcher.libraries import link
from launcher.records import Argument, Code, Entry, code_of
from launcher.test_code_choice import remedy
from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle

DEVICES = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121, 130)
CUBINS = ("sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120")
PTX = ("sm75", "sm80", "sm89")

# Each kernel has these codes, real ones.
MIXES = {
    "cubins": "sm80 sm86 sm90 sm120",
    "one_ptx": "ptx89",
    "old_and_new": "sm75 sm86 sm89 sm120 ptx89",
    "newest_cubins": "sm100 sm120 ptx80",
    "own_ptx": "sm86 ptx75",
    "two_ptx": "ptx75 sm90 ptx89",
}

# What the devices run, in the order of DEVICES; nothing where it is "-".
EXPECTED = {
    "cubins": "- sm80 sm86 - sm86 sm90 - - - sm120 - -",
    "one_ptx": "- - - - ptx89 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89",
    "old_and_new": "sm75 - sm86 - sm89 ptx89 ptx89 ptx89 ptx89 sm120 ptx89 ptx89",
    "newest_cubins": "- ptx80 ptx80 ptx80 ptx80 ptx80 sm100 ptx80 ptx80 sm120 ptx80 ptx80",
    "own_ptx": "ptx75 ptx75 sm86 ptx75 sm86 ptx75 ptx75 ptx75 ptx75 ptx75 ptx75 ptx75",
    "two_ptx": "ptx75 ptx75 ptx75 ptx75 ptx89 sm90 ptx89 ptx89 ptx89 ptx89 ptx89 ptx89",
}

SHIPPED = {
    "cubins": "sm_80, sm_86, sm_90a, sm_120a",
    "one_ptx": "PTX for sm_89",
    "old_and_new": "sm_75, sm_86, sm_89, sm_120a, PTX for sm_89",
    "newest_cubins": "sm_100a, sm_120a, PTX for sm_80",
}

POINTERS = ["pointer:1230", "pointer:4560"]
GIVEN = [*POINTERS, argument("i32", -7)]
PASSED = (*(struct.pack("<Q", int(pointer[8:], 16)) for pointer in POINTERS), struct.pack("<i", -7), bytes(8), bytes(8))

Codes = Mapping[str, Mapping[str, Code]]


@pytest.fixture(scope="session")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Codes:
    """Kernel -> `sm86` or `ptx89` -> its code."""
    copied = KernelSpec(
        kernels.copy,
        name="copy",
        arguments=[Pointer("fp32"), Pointer("fp32"), Scalar("i32")],
        constants={"BLOCK": 64},
        num_warps=2,
    )
    shared = KernelSpec(
        kernels.matmul,
        name="matmul",
        arguments=[Pointer("fp16"), Pointer("fp16"), Pointer("fp32")],
        constants={"N": 128},
        num_stages=2,
        num_warps=8,
    )
    found: dict[str, dict[str, Code]] = {"copy": {}, "matmul": {}}
    for ptx in PTX:
        directory = tmp_path_factory.mktemp("codes") / "bundle"
        compile_bundle([copied, *([shared] if ptx == "sm80" else [])], CUBINS, directory, ptx=ptx)
        for target in CUBINS:
            found["copy"][target] = code_of(directory, "copy", target)[1]
        found["copy"][ptx.replace("sm", "ptx")] = code_of(directory, "copy", f"{ptx} PTX")[1]
        if ptx == "sm80":
            found["matmul"]["ptx80"] = code_of(directory, "matmul", "sm80 PTX")[1]
    return found


@pytest.fixture(scope="session")
def digests(codes: Codes) -> dict[str, str]:
    """SHA-256 -> `sm86` or `ptx89`."""
    return {hashlib.sha256(code.data).hexdigest(): name for name, code in codes["copy"].items()}


@pytest.fixture(scope="session")
def text(codes: Codes) -> str:
    """The PTX for sm80."""
    return codes["copy"]["ptx80"].data.decode()


def copy_entry(kernel: str, *codes: Code, symbol: str = "copy") -> Entry:
    pointers = [Argument(name=name, type="*fp32", size=8) for name in ("source", "target")]
    size = Argument(name="size", type="i32", size=4)
    return Entry(kernel=kernel, codes=codes, symbol=symbol, arguments=[*pointers, size])


@pytest.fixture(scope="session")
def mixes(codes: Codes, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An entry for each mix, one with more shared memory than goes without saying, and defective ones."""
    entries = [copy_entry(name, *(codes["copy"][code] for code in mix.split())) for name, mix in MIXES.items()]
    pointers = [Argument(name=name, type="*fp16", size=8) for name in "abc"]
    entries.append(Entry(kernel="shared", codes=[codes["matmul"]["ptx80"]], symbol="matmul", arguments=pointers))
    good = codes["copy"]["ptx80"]
    entries += [
        copy_entry(name, replace(good, data=data))
        for name, data in {
            "newer_version": good.data.replace(b".version 8.0", b".version 9.9"),
            "false_target": good.data.replace(b"sm_80", b"sm_90"),
            "cut_off": good.data[: good.data.rindex(b"}")],
            "no_ptx": b"\x01\x02" + good.data,
        }.items()
    ]
    entries += [
        copy_entry("renamed", good, symbol="elsewhere"),
        copy_entry("damaged", replace(good, sha256="ab" * 32)),
    ]
    return link(library, entries, tmp_path_factory.mktemp("ptx") / "ptx")


@in_child
def test_each_device_runs_the_nearest_cubin_or_else_ptx(mixes: Path, digests: dict[str, str]) -> None:
    ran: dict[str, list[str]] = {name: [] for name in MIXES}
    with session(mixes, DEVICES) as at:
        for ordinal, device in enumerate(DEVICES):
            at.driver.create_context(ordinal)
            for name in MIXES:
                if EXPECTED[name].split()[ordinal] == "-":
                    ran[name].append("-")
                    assert at.refusal(name, GIVEN) == (
                        f"Launch: onShapeChange: kernel {name}#0: no code runs on this device of sm_{device}; "
                        f"the library has {SHIPPED[name]}: {remedy(device)}"
                    )
                    continue
                at.launch(name, GIVEN)
                launch = at.driver.launches[-1]
                ran[name].append(digests[launch.sha256])
                assert (launch.arguments, launch.block, launch.shared) == (PASSED, (64, 1, 1), 0)
    assert {name: " ".join(row) for name, row in ran.items()} == EXPECTED


@in_child
def test_ptx_is_loaded_once_for_all_devices_as_it_was_made(mixes: Path, text: str) -> None:
    with session(mixes, [90, 121]) as at:
        for device in (0, 1, 0):
            at.driver.create_context(device)
            for _ in range(2):
                at.launch("newest_cubins", GIVEN)
        (load,) = at.driver.records(LibraryLoad)
        assert (load.kind, load.sm, load.size) == ("ptx", 80, len(text))
        assert load.sha256 == hashlib.sha256(text.encode()).hexdigest()
        assert len(at.driver.records(FunctionLoad)) == 3  # contexts


@in_child
def test_user_is_told_that_the_driver_compiles(mixes: Path) -> None:
    with session(mixes, [90]) as at:
        at.launch("old_and_new", GIVEN)
        start = "kernel old_and_new#0, PTX for sm_89: the driver"
        said = [(message.severity, message.text) for message in at.harness.messages if start in message.text]
        compiles = "compiles it for this device of sm_90, which no cubin fits, unless its cache has it already"
        assert said == [
            ("INFO", f"{start} {compiles}"),
            ("VERBOSE", f"{start}'s compiler: compiled for each device from sm_89 on"),
        ]
        at.launch("cubins", GIVEN)
        assert at.told("kernel cubins#0") == []


@in_child
def test_first_execution_of_ptx_can_be_captured(mixes: Path) -> None:
    with session(mixes, [121]) as at:
        context = at.driver.current_context()
        assert context is not None
        stream = context.create_stream()
        running = at.make(kernel="newest_cubins", arguments=" ".join(GIVEN))
        with stream.capture("global"):
            at.enqueue(running, stream=stream)
        assert at.driver.launches[-1].captured


@in_child
def test_shared_memory_of_ptx_is_checked_against_the_device(mixes: Path) -> None:
    enough, less = Target(sm=90, max_shared=65536), Target(sm=120, max_shared=65535)
    given = ["pointer:100"] * 3
    with session(mixes, [enough, less]) as at:
        at.launch("shared", given)
        (setting,) = at.driver.records(AttributeSetting)
        assert (setting.attribute, setting.value, setting.device) == (8, 65536, 0)
        assert (at.driver.launches[-1].shared, at.driver.launches[-1].block) == (65536, (256, 1, 1))
        at.driver.create_context(1)
        assert at.refusal("shared", given) == (
            "Launch: onShapeChange: kernel shared#0, PTX for sm_80: needs 65536 bytes of shared memory per block; "
            "a device of sm_120 has 65535"
        )


@in_child
def test_failure_to_compile_shows_what_the_compiler_says(mixes: Path, text: str) -> None:
    size = len(text)
    last = 1 + text[: text.rindex("}")].count("\n")
    failed = "CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed"
    place = "the driver's compiler: ptx input, line"
    with session(mixes, [86]) as at:
        for kernel, message in {
            "newer_version": (
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): the provided PTX was compiled with an unsupported toolchain;"
                f" kernel newer_version#0, PTX for sm_80, {size} bytes; {place} 5; fatal: unsupported .version 9.9; "
                "current version is '8.8'"
            ),
            "false_target": (
                f"{failed}; kernel false_target#0, PTX for sm_80, {size} bytes; "
                "the driver's compiler: fatal: .target sm_90 is not for any device here"
            ),
            "cut_off": (
                f"{failed}; kernel cut_off#0, PTX for sm_80, {text.rindex('}')} bytes; "
                f"{place} {last}; fatal: a function's body does not end"
            ),
            "no_ptx": (
                "CUDA_ERROR_INVALID_IMAGE (200): device kernel image is invalid; "
                f"kernel no_ptx#0, PTX for sm_80, {size + 2} bytes"
            ),
        }.items():
            for _ in range(2):
                assert at.refusal(kernel, GIVEN) == f"Launch: onShapeChange: cuLibraryLoadData: {message}"
        assert at.refusal("renamed", GIVEN).endswith(
            "cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND (500): named symbol not found; "
            "kernel renamed#0, PTX for sm_80, symbol elsewhere"
        )
        assert "the bundle records " + "ab" * 32 in at.refusal("damaged", GIVEN)
        at.launch("newest_cubins", GIVEN)


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"])
@in_child
def test_driver_that_may_not_compile_is_named_wherever_it_says_so(mixes: Path, call: str) -> None:
    """Some look at the text when it is loaded, others when a kernel is first needed."""
    with session(mixes, [90]) as at:
        at.driver.fail(call, "CUDA_ERROR_JIT_COMPILATION_DISABLED")
        message = at.refusal("one_ptx", GIVEN)
        assert message.startswith(
            f"Launch: onShapeChange: {call}: CUDA_ERROR_JIT_COMPILATION_DISABLED (223): PTX JIT compilation was"
            " disabled; kernel one_ptx#0, PTX for sm_89"
        )
        at.launch("one_ptx", GIVEN)
