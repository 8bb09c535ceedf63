"""Code is verified, loaded once, made ready before the launch, and its defects are told apart from others."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.tools import assemble
from testing.child import in_child

from hatch_tensoracle.elf import read_cubin
from hatch_tensoracle.targets import Target
from hatch_tensoracle.testing.records import AttributeSetting, Call, FunctionLoad, LibraryLoad, LibraryUnload
from launcher.launching import X, argument, session
from launcher.libraries import SANITIZER, link
from launcher.records import Argument, Code, Entry, code_of

GIVEN = ["pointer:100", "pointer:100", argument("i32", 16), argument("i64", 1)]


STATIC = """
.version 8.0
.target sm_86
.address_size 64
.visible .entry tile(.param .u64 x, .param .u64 global_scratch, .param .u64 profile_scratch)
{ .shared .b8 tile[1024]; st.shared.u8 [tile], 0; ret; }
"""


@pytest.fixture(scope="session")
def damaged(bundle: Path, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One true entry, and others with one defect each."""
    symbol, code = code_of(bundle, "tiled", "sm86")
    _, blackwell = code_of(bundle, "tiled", "sm120")
    _, shared = code_of(bundle, "shared", "sm86")
    arguments = [
        *(Argument(name=name, type="*fp32", size=8, divisible_by=16) for name in ("source", "target")),
        Argument(name="size", type="i32", size=4, divisible_by=16),
        Argument(name="stride", type="i64", size=8),
    ]
    text = bytearray(code.data)
    text[:4] = b"ELF?"
    codes = {
        "true": code,
        "lying_sm": replace(blackwell, sm=86, specific=False),
        "corrupt": replace(code, data=bytes(text)),
        "wrong_digest": replace(code, sha256="ab" * 32),
        "resources": replace(code, registers=code.registers + 1, local=8, static_shared=16),
        "as_ptx": replace(code, registers=99, local=8, ptx=True, data=code.data + b"\0"),
        "threads": replace(code, threads=1025),
        "too_much_shared": replace(code, dynamic_shared=99 * 1024 + 1),
    }
    entries = [Entry(kernel=name, codes=[each], symbol=symbol, arguments=arguments) for name, each in codes.items()]
    cubin = assemble(STATIC, tmp_path_factory.mktemp("static"), target="sm_86").read_bytes()
    static = Code(sm=86, data=cubin, registers=read_cubin(cubin).kernels[0].registers, static_shared=1024)
    for kib in (47, 48, 98, 99):
        both = replace(static, dynamic_shared=kib * 1024)
        entries.append(Entry(kernel=f"static_{kib}", codes=[both], symbol="tile", arguments=arguments[:1]))
    entries += [
        Entry(kernel="wrong_symbol", codes=[code], symbol="elsewhere"),
        Entry(kernel="shared", codes=[shared], symbol="multiplied", arguments=[arguments[0]] * 3),
        Entry(kernel="many", codes=[code], symbol=symbol, arguments=[arguments[2]] * 65),
        Entry(kernel="none", codes=[code], symbol=symbol),
        Entry(kernel="thirds", codes=[code], symbol=symbol, arguments=[*arguments[:2], _thirds("i64"), _thirds("u64")]),
        Entry(kernel="halves", codes=[code], symbol=symbol, arguments=[_half(type_) for type_ in ("fp32", "bf16")]),
    ]
    return link(library, entries, tmp_path_factory.mktemp("damaged") / "damaged")


def _thirds(type_: str) -> Argument:
    return Argument(name=type_, type=type_, size=8, divisible_by=3)


def _half(type_: str) -> Argument:
    return Argument(name=type_, type=type_, size=4, equal_to=2)


@in_child
def test_flipped_byte_in_the_library_is_told_with_both_digests(bundle: Path, library: Path, tmp_path: Path) -> None:
    _, code = code_of(bundle, "guarded", "sm86")
    image = bytearray(library.read_bytes())
    image[image.index(code.data) + len(code.data) // 2] ^= 1
    (tmp_path / "libflipped.so").write_bytes(image)
    damage = bytearray(code.data)
    damage[len(code.data) // 2] ^= 1
    recorded, observed = (hashlib.sha256(data).hexdigest() for data in (code.data, damage))
    with session(tmp_path / "libflipped.so") as at:
        message = at.refusal("guarded", GIVEN)
        assert message.endswith(
            f"sm_86: the embedded code has SHA-256 {observed}, the bundle records {recorded}: "
            "the library is damaged; build or install it again"
        )
        assert not at.driver.records(LibraryLoad)
        at.launch("tiled", GIVEN)  # other code is whole


@in_child
def test_defective_code_is_an_error_that_names_kernel_call_and_size(bundle: Path, damaged: Path) -> None:
    size = len(code_of(bundle, "tiled", "sm86")[1].data)
    large = len(code_of(bundle, "tiled", "sm120")[1].data)
    with session(damaged) as at:
        for kernel, message in {
            "lying_sm": (
                "cuLibraryLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available for execution on "
                f"the device; kernel lying_sm#0, sm_86, {large} bytes"
            ),
            "corrupt": (
                "cuLibraryLoadData: CUDA_ERROR_INVALID_IMAGE (200): device kernel image is invalid; "
                f"kernel corrupt#0, sm_86, {size} bytes"
            ),
            "wrong_symbol": (
                "cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND (500): named symbol not found; "
                "kernel wrong_symbol#0, sm_86, symbol elsewhere"
            ),
            "threads": "kernel threads#0, sm_86: is launched with 1025 threads per block; the driver allows 1024",
            "too_much_shared": (
                "kernel too_much_shared#0, sm_86: needs 101377 bytes of shared memory per block; "
                "a device of sm_86 has 101376"
            ),
            "many": "kernel many#0, sm_86: has 65 arguments; at most 64 are supported",
        }.items():
            for _ in range(2):
                assert at.refusal(kernel, GIVEN) == f"Launch: onShapeChange: {message}"
        assert "the bundle records " + "ab" * 32 in at.refusal("wrong_digest", GIVEN)
        at.launch("true", GIVEN)


@in_child
def test_resources_that_differ_from_the_record_are_warned_about(bundle: Path, damaged: Path) -> None:
    registers = code_of(bundle, "tiled", "sm86")[1].registers
    with session(damaged) as at:
        at.launch("true", GIVEN)
        at.launch("as_ptx", GIVEN)  # the driver's compiler chooses its resources
        assert not [message for message in at.harness.messages if message.severity != "INFO"]
        at.launch("resources", GIVEN)
        start = "kernel resources#0, sm_86: the driver reports"
        assert [(message.severity, message.text) for message in at.harness.messages if message.severity != "INFO"] == [
            ("WARNING", f"{start} 0 bytes of static shared memory, the bundle records 16"),
            ("WARNING", f"{start} {registers} registers per thread, the bundle records {registers + 1}"),
            ("WARNING", f"{start} 0 bytes of local memory per thread, the bundle records 8"),
        ]


@in_child
def test_divisors_that_are_no_power_of_two_and_floats_compiled_for_a_value_are_guarded(damaged: Path) -> None:
    with session(damaged) as at:
        for i, u in [(-3, 3), (0, 0), (9, 2**64 - 1)]:
            at.launch("thirds", [*GIVEN[:2], argument("i64", i), argument("u64", u)])
        for given, reason in {
            (argument("i64", -4), argument("u64", 3)): "i64 (i64) is -4, which is not divisible by 3",
            (argument("i64", 3), argument("u64", 2**64 - 2)): (
                "u64 (u64) is 18446744073709551614, which is not divisible by 3"
            ),
        }.items():
            assert at.refusal("thirds", [*GIVEN[:2], *given]).endswith(reason)
        running = at.make(kernel="halves", arguments=f"{argument('fp32', 2)} {argument('fp64', 2)}", grid=[0, 1, 1])
        at.enqueue(running)
        given2 = [argument("fp32", 2), argument("bf16", 2.5)]
        assert at.refusal("halves", given2).endswith("bf16 (bf16) is 2.5; the code was compiled for 2")
        assert at.refusal("none", GIVEN[:1]).endswith("is given 1 arguments; it takes 0: ")


@in_child
def test_shared_memory_is_opted_in_to_exactly_where_it_is_needed(library: Path) -> None:
    small, large = Target(sm=86, max_shared=65536), Target(sm=90, max_shared=227 * 1024)
    less = Target(sm=120, max_shared=65535)
    with session(library, [small, large, less]) as at:
        at.launch("tiled", GIVEN)
        assert not at.driver.records(AttributeSetting)
        for device in (0, 1, 0):
            at.driver.create_context(device)
            at.driver.clear()
            at.launch("shared", GIVEN[:1] * 3)
            assert at.driver.launches[-1].shared == 65536
            settings = at.driver.records(AttributeSetting)
            assert [(each.attribute, each.value, each.device) for each in settings] in ([(8, 65536, device)], [])
        at.driver.create_context(2)
        assert at.refusal("shared", GIVEN[:1] * 3) == (
            "Launch: onShapeChange: kernel shared#0, sm_120a: needs 65536 bytes of shared memory per block; "
            "a device of sm_120 has 65535"
        )


@in_child
def test_shared_memory_of_fixed_size_counts_with_what_is_given_at_launch(damaged: Path) -> None:
    with session(damaged) as at:
        for kib, opted_in in {47: [], 48: [48 * 1024], 98: [98 * 1024]}.items():
            at.driver.clear()
            at.launch(f"static_{kib}", GIVEN[:1])
            assert at.driver.launches[-1].shared == kib * 1024
            assert [each.value for each in at.driver.records(AttributeSetting)] == opted_in
        assert at.refusal("static_99", GIVEN[:1]).endswith(
            f"kernel static_99#0, sm_86: needs {100 * 1024} bytes of shared memory per block; a device of sm_86 has"
            f" {99 * 1024}"
        )


@in_child
def test_each_device_is_opted_in_once(library: Path) -> None:
    with session(library, [90, 86]) as at:
        for device in (0, 1, 0, 1):
            at.driver.create_context(device)
            at.launch("shared", GIVEN[:1] * 3)
        assert [(each.value, each.device) for each in at.driver.records(AttributeSetting)] == [(65536, 0), (65536, 1)]


@in_child
def test_code_is_loaded_once_and_nothing_grows_over_alternating_shapes(library: Path) -> None:
    resident = Path("/proc/self/statm")
    with session(library) as at:
        plugins = [at.make("Tuned", tactic=tactic) for tactic in (1, 2, 4)]
        plugins.append(at.make(kernel="shared", arguments="null null null"))

        def alternate(times: int) -> int:
            for i in range(times):
                at.enqueue(plugins[i % 4], elements=16 + i % 7 * 512)
                if i % 1000 == 999:
                    at.driver.clear()  # records grow, too
            return int(resident.read_text().split()[1])

        alternate(2000)
        functions = len(at.driver.records(FunctionLoad))
        before = alternate(1000)
        after = alternate(10_000)
        assert functions == 0
        # What the harness keeps of messages is less; a sanitizer keeps what was freed.
        assert after - before < 1024 or SANITIZER, "pages"
        alternate(500)
        names = {call.name for call in at.driver.records(Call)}
        assert not names & {
            "cuLibraryLoadData",
            "cuLibraryUnload",
            "cuModuleLoadData",
            "cuMemAlloc",
            "cuKernelSetAttribute",
        }
        assert not at.driver.records(FunctionLoad)


@in_child
def test_plugins_share_what_is_loaded_and_never_unload_it(library: Path) -> None:
    with session(library) as at:
        for _ in range(3):
            running = at.launch("guarded", GIVEN)
            at.launch("tiled", GIVEN)
            running.close()
        assert len(at.driver.records(LibraryLoad)) == 3 + 2  # variants
        assert not at.driver.records(LibraryUnload)


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetAttribute"])
@in_child
def test_earlier_error_of_the_context_is_not_blamed_on_the_code(library: Path, call: str) -> None:
    with session(library) as at:
        for each in (call, "cuMemGetInfo"):
            at.driver.fail(each, "CUDA_ERROR_ILLEGAL_ADDRESS")
        assert at.refusal("tiled", GIVEN) == (
            "Launch: onShapeChange: the CUDA context is already in error before kernel tiled#0, sm_86 is loaded: "
            "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered; "
            "the cause is work that was enqueued earlier"
        )
        at.launch("tiled", GIVEN)


@in_child
def test_earlier_error_of_another_context_is_not_blamed_on_code_that_is_loaded_already(library: Path) -> None:
    with session(library) as at:
        at.launch("tiled", GIVEN)
        at.driver.create_context()
        for call in ("cuKernelGetFunction", "cuMemGetInfo"):
            at.driver.fail(call, "CUDA_ERROR_LAUNCH_FAILED")
        assert at.refusal("tiled", GIVEN) == (
            "Launch: onShapeChange: the CUDA context is already in error before kernel tiled#0, sm_86 is loaded: "
            "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; the cause is work that was enqueued earlier"
        )


@in_child
def test_creating_and_destroying_a_plugin_needs_no_driver(library: Path) -> None:
    with session(library) as at:
        at.driver.clear()
        at.harness.create("Tuned").build([X])
        at.harness.create("Weights", {"weights": [1.0]}).close()
        assert at.driver.records(Call) == ()
