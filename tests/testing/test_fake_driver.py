"""The fake driver does what the CUDA driver API documents, and where that leaves room, what driver 580 was seen to do.

Where drivers differ it is the strict one: code is looked at when it is loaded, and under capture neither code may be
loaded nor a kernel be used for the first time in a context.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from helpers.tools import run, tool

from hatch_tensoracle.elf import read_cubin
from hatch_tensoracle.targets import Target
from hatch_tensoracle.testing import Context, Cuda, CudaError, FakeDriver, FakeDriverError, Stream, native
from hatch_tensoracle.testing.cuda import CaptureMode
from hatch_tensoracle.testing.records import (
    Allocation,
    AttributeSetting,
    Call,
    CaptureBegin,
    CaptureModeExchange,
    Copy,
    Free,
    FunctionLoad,
    Launch,
    LibraryLoad,
    LibraryUnload,
)
from testing.child import in_child

Cubins = dict[int, bytes]

KERNEL = b"add_rms_norm"
THREADS = 256
RELAXED = 2


def fails(error: str, call: Callable[..., object], *arguments: object) -> None:
    """Assert that a call fails with that error."""
    with pytest.raises(CudaError) as caught:
        call(*arguments)
    assert caught.value.name == f"CUDA_ERROR_{error}"


def made(cuda: Cuda, name: str, *arguments: object) -> ctypes.c_void_p:
    """What a call writes through its first parameter."""
    handle = ctypes.c_void_p()
    cuda.call(name, ctypes.byref(handle), *arguments)
    return handle


def load(cuda: Cuda, code: bytes) -> ctypes.c_void_p:
    """Load code; the driver copies it."""
    return made(cuda, "cuLibraryLoadData", code, None, None, 0, None, None, 0)


def kernel_of(cuda: Cuda, cubins: Cubins, sm: int = 86) -> ctypes.c_void_p:
    """A kernel of the example."""
    return made(cuda, "cuLibraryGetKernel", load(cuda, cubins[sm]), KERNEL)


def patched(code: bytes, offset: int, value: bytes) -> bytes:
    """The code with other bytes at an offset."""
    return code[:offset] + value + code[offset + len(value) :]


def labelled(code: bytes, sm: int, *, specific: bool) -> bytes:
    """A cubin that says it is for another SM: e_flags is at offset 48."""
    flags = sm | 0x500 | (0x800 if specific else 0)
    return patched(patched(code, 8, b"\x07"), 48, struct.pack("<I", flags))


def launch(  # noqa: PLR0913 - the call has more
    cuda: Cuda,
    kernel: ctypes.c_void_p,
    stream: Stream | None,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (THREADS, 1, 1),
    shared: int = 16,
) -> None:
    """Launch a kernel of the example, whose arguments are five pointers, an int, a float and two pointers."""
    pointers = [ctypes.c_uint64(i) for i in range(5)]
    values: list[Any] = [*pointers, ctypes.c_int(-2), ctypes.c_float(0.5), ctypes.c_uint64(0), ctypes.c_uint64(0)]
    addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    handle = ctypes.c_void_p(stream.handle if stream else 0)
    cuda.call("cuLaunchKernel", kernel, *(ctypes.c_uint(n) for n in (*grid, *block, shared)), handle, addresses, None)


def in_thread(body: Callable[[], object]) -> object:
    """Run in a thread of its own, and return or raise what it does."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(body).result()


PTX = """
// a compiler's name
.version 8.0
.target sm_89
.address_size 64

.extern .shared .align 16 .b8 tile[];
.func (.param .b32 r) helper(.param .b32 a) { ret; }
.visible .entry one(
	.param .u64 .ptr .global .align 1 one_param_0,
	.param .u16 one_param_1,
	.param .align 4 .b8 one_param_2[12]
)
.reqntid 64, 2, 1
{
	.reg .b64 %r<2>; // .entry in_a_comment() {
	mov.b64 { %r0, %r1 }, %r2;
	ret;
}
.entry two { ret; }
"""


def load_ptx(cuda: Cuda, text: str, *, size: int = 200) -> tuple[ctypes.c_void_p, str, str]:
    """Load PTX; return what the compiler says, too: notes and errors."""
    logs = [ctypes.create_string_buffer(b"nothing", size) for _ in range(2)]
    options = (ctypes.c_int * 4)(3, 4, 5, 6)
    addresses = [ctypes.addressof(log) for log in logs]
    values = (ctypes.c_void_p * 4)(addresses[0], size, addresses[1], size)
    library = ctypes.c_void_p()
    try:
        arguments = (options, values, ctypes.c_uint(4), None, None, ctypes.c_uint(0))
        cuda.call("cuLibraryLoadData", ctypes.byref(library), text.encode(), *arguments)
    except CudaError as error:
        error.add_note(logs[1].value.decode())
        assert (logs[0].value, values[3] or 0) == (b"nothing", len(logs[1].value))
        raise
    return library, logs[0].value.decode(), logs[1].value.decode()


# The process's driver.


@in_child
def test_driver_is_what_a_library_finds_by_name() -> None:
    FakeDriver([86])
    assert hasattr(ctypes.CDLL("libcuda.so.1"), "fakeDriverAddDevice")


@in_child
def test_driver_refuses_to_replace_another_that_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "driver.cpp").write_text('extern "C" int cuInit(unsigned flags) { return flags; }')
    real = tmp_path / "libcuda.so.1"
    run(tool("g++"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", real, tmp_path / "driver.cpp")
    ctypes.CDLL(str(real))
    with pytest.raises(FakeDriverError, match="the real driver, is loaded in this process already"):
        FakeDriver([86])


@in_child
def test_process_keeps_its_devices() -> None:
    with FakeDriver([86, 90]):
        pass
    with FakeDriver([86, 90]) as driver:
        assert driver.current_context() is None
    with pytest.raises(
        FakeDriverError, match=r"has the devices \[86, 90\] in this process already, and is given \[86\]"
    ):
        FakeDriver([86])


@in_child
def test_contexts_are_destroyed_at_the_end() -> None:
    with FakeDriver([86]) as driver:
        first, second = driver.create_context(), driver.create_context()
        second.destroy()
    assert not first.is_alive()


@in_child
def test_nothing_works_before_initialisation() -> None:
    library = ctypes.CDLL(str(native.build(native.FAKE_DRIVER)))
    assert library.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) == 3  # CUDA_ERROR_NOT_INITIALIZED
    assert library.cuInit(0) == 100  # CUDA_ERROR_NO_DEVICE
    library.fakeDriverAddDevice(86, 1)
    assert library.cuInit(1) == 1  # CUDA_ERROR_INVALID_VALUE
    assert library.cuInit(0) == 0


# Devices.


@pytest.mark.parametrize(
    "device", ["sm_89", "8.9", "rtx", "", -1, 0, 9, 8600, True, 8.9, None, Target(sm=-1, max_shared=1)], ids=repr
)
def test_device_that_is_no_sm_is_refused(device: Any) -> None:
    with pytest.raises(FakeDriverError) as caught:
        FakeDriver([86, device])
    assert str(caught.value) == f"{device!r} is no SM: compute capability 8.9 is 89 or 'sm89'"


@pytest.mark.parametrize("devices", [89, "sm89", None, Target(sm=89, max_shared=1)], ids=repr)
def test_devices_are_a_list(devices: Any) -> None:
    with pytest.raises(FakeDriverError, match="which is no list") as caught:
        FakeDriver(devices)
    assert caught.value.remedy == "Name SMs, such as FakeDriver(devices=[86])."


@in_child
def test_devices_have_the_capabilities_that_the_test_gives() -> None:
    driver = FakeDriver([75, "sm86", "121", "sm130"])
    count, value = ctypes.c_int(), ctypes.c_int()
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    assert count.value == 4
    seen = []
    for device in range(4):
        capability = []
        for attribute in (75, 76, 97):
            driver.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            capability.append(value.value)
        seen.append(tuple(capability))
    assert seen == [(7, 5, 64 << 10), (8, 6, 99 << 10), (12, 1, 99 << 10), (13, 0, 99 << 10)]
    fails("INVALID_DEVICE", driver.call, "cuDeviceGet", ctypes.byref(value), 4)
    fails("INVALID_DEVICE", driver.call, "cuDeviceGetAttribute", ctypes.byref(value), 75, -1)
    fails("INVALID_VALUE", driver.call, "cuDeviceGetAttribute", ctypes.byref(value), 9999, 0)


@in_child
def test_errors_have_names_and_descriptions() -> None:
    driver = FakeDriver([86])
    with pytest.raises(CudaError, match=r"cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT \(201\): invalid device context"):
        driver.allocate(16)


# Contexts.


@in_child
def test_each_thread_has_a_current_context_of_its_own() -> None:
    driver = FakeDriver([86, 90])
    first = driver.create_context(0)
    second = driver.create_context(1)

    def other() -> int | None:
        assert driver.current_context() is None
        first.make_current()
        context = driver.current_context()
        return context.handle if context else None

    assert in_thread(other) == first.handle
    assert cast("Context", driver.current_context()).handle == second.handle
    with first:
        device = ctypes.c_int()
        driver.call("cuCtxGetDevice", ctypes.byref(device))
        assert device.value == 0
    assert cast("Context", driver.current_context()).handle == second.handle


@in_child
def test_destroyed_context_fails_wherever_it_is_used(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    stream, kernel, memory = context.create_stream(), kernel_of(driver, cubins), driver.allocate(64)
    driver.call("cuCtxPopCurrent", None)

    ready, destroyed = threading.Event(), threading.Event()

    def holder() -> None:
        context.make_current()
        ready.set()
        destroyed.wait()
        fails("CONTEXT_IS_DESTROYED", driver.allocate, 16)
        fails("CONTEXT_IS_DESTROYED", made, driver, "cuKernelGetFunction", kernel)
        fails("CONTEXT_IS_DESTROYED", driver.call, "cuCtxSynchronize")
        fails("CONTEXT_IS_DESTROYED", launch, driver, kernel, None)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(holder)
        ready.wait()
        context.destroy()
        destroyed.set()
        held.result()
    fails("CONTEXT_IS_DESTROYED", context.make_current)
    fails("CONTEXT_IS_DESTROYED", context.__enter__)
    fails("CONTEXT_IS_DESTROYED", context.destroy)
    fails("CONTEXT_IS_DESTROYED", launch, driver, kernel, stream)
    with driver.create_context():
        fails("INVALID_VALUE", driver.free, memory)  # it went with its context


@in_child
def test_destroying_the_current_context_leaves_the_one_below() -> None:
    driver = FakeDriver([86])
    below = driver.create_context()
    driver.create_context().destroy()
    assert cast("Context", driver.current_context()).handle == below.handle
    below.destroy()
    assert driver.current_context() is None
    fails("INVALID_CONTEXT", driver.call, "cuCtxPopCurrent", None)
    fails("INVALID_CONTEXT", driver.call, "cuCtxDestroy", ctypes.c_void_p(12345))


@in_child
def test_primary_context_lives_while_it_is_retained() -> None:
    driver = FakeDriver([86])
    first = made(driver, "cuDevicePrimaryCtxRetain", 0)
    assert made(driver, "cuDevicePrimaryCtxRetain", 0).value == first.value
    fails("INVALID_CONTEXT", driver.call, "cuCtxDestroy", first)
    for _ in range(2):
        driver.call("cuDevicePrimaryCtxRelease", 0)
    fails("CONTEXT_IS_DESTROYED", driver.call, "cuCtxSetCurrent", first)
    fails("INVALID_CONTEXT", driver.call, "cuDevicePrimaryCtxRelease", 0)


# Memory.


@in_child
def test_memory_keeps_what_is_copied() -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    address = driver.allocate(1000)
    assert address % 256 == 0
    driver.copy_to_device(address + 10, b"content")
    assert driver.copy_to_host(address + 8, 11) == b"\xa5\xa5content\xa5\xa5"
    driver.free(address)
    driver.free(0)
    common: dict[str, Any] = {"result": "CUDA_SUCCESS", "context": context.handle}
    copy = {**common, "owner": context.handle}
    assert driver.records(Allocation) == (Allocation(name="cuMemAlloc", address=address, size=1000, **common),)
    assert driver.records(Free) == (Free(name="cuMemFree", address=address, size=1000, **copy),)
    assert driver.records(Copy) == (
        Copy(name="cuMemcpyHtoD", direction="host to device", address=address + 10, size=7, **copy),
        Copy(name="cuMemcpyDtoH", direction="device to host", address=address + 8, size=11, **copy),
    )


@in_child
def test_memory_that_is_not_allocated_is_refused() -> None:
    driver = FakeDriver([86])
    driver.create_context()
    address = driver.allocate(64)
    fails("INVALID_VALUE", driver.allocate, 0)
    fails("OUT_OF_MEMORY", driver.allocate, 1 << 50)
    fails("INVALID_VALUE", driver.free, address + 8)
    fails("INVALID_VALUE", driver.copy_to_device, address + 60, b"12345")
    fails("INVALID_VALUE", driver.copy_to_host, address - 1, 1)
    driver.free(address)
    fails("INVALID_VALUE", driver.free, address)
    fails("INVALID_VALUE", driver.copy_to_host, address, 1)


@in_child
def test_free_memory_is_counted_by_device() -> None:
    driver = FakeDriver([86, 90])
    available, total = ctypes.c_size_t(), ctypes.c_size_t()

    def used() -> int:
        driver.call("cuMemGetInfo", ctypes.byref(available), ctypes.byref(total))
        return total.value - available.value

    driver.create_context(0)
    driver.allocate(1000)
    driver.create_context(0)
    driver.allocate(500)
    assert used() == 1500
    driver.create_context(1)
    assert used() == 0


# Code.


@in_child
def test_loaded_code_is_recorded_and_described_as_the_cubin_says(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    code = cubins[86]
    image = read_cubin(code).kernels[0]
    library = load(driver, code + b"what follows it")
    kernel = made(driver, "cuLibraryGetKernel", library, KERNEL)
    assert made(driver, "cuLibraryGetKernel", library, KERNEL).value == kernel.value
    digest = hashlib.sha256(code).hexdigest()
    (record,) = driver.records(LibraryLoad)
    assert (record.sha256, record.size, record.sm) == (digest, len(code), 86)
    value = ctypes.c_int()
    seen = []
    for attribute in (0, 1, 3, 4, 6, 8):
        driver.call("cuKernelGetAttribute", ctypes.byref(value), attribute, kernel, 0)
        seen.append(value.value)
    assert seen == [1024, image.static_shared, image.local_bytes, image.registers, 86, 48 * 1024 - image.static_shared]
    made(driver, "cuKernelGetFunction", kernel)
    made(driver, "cuKernelGetFunction", kernel)
    (function,) = driver.records(FunctionLoad)
    assert (function.kernel, function.sha256, function.context) == (KERNEL.decode(), digest, context.handle)
    driver.call("cuLibraryUnload", library)
    assert [unload.sha256 for unload in driver.records(LibraryUnload)] == [digest]
    fails("INVALID_HANDLE", made, driver, "cuLibraryGetKernel", library, KERNEL)
    fails("INVALID_HANDLE", launch, driver, kernel, None)


@in_child
def test_cubins_of_every_generation_are_read_as_inspection_reads_them(cubins: Cubins) -> None:
    assert {86, 120} <= cubins.keys()  # the two forms of ELF header
    driver = FakeDriver(list(cubins))
    value = ctypes.c_int()
    for device, (sm, code) in enumerate(cubins.items()):
        driver.create_context(device)
        image = read_cubin(code).kernels[0]
        kernel = kernel_of(driver, cubins, sm)
        seen = []
        for attribute in (1, 3, 4, 6):
            driver.call("cuKernelGetAttribute", ctypes.byref(value), attribute, kernel, device)
            seen.append(value.value)
        assert seen == [image.static_shared, image.local_bytes, image.registers, sm]
        launch(driver, kernel, None, block=(image.threads, 1, 1))
        arguments = driver.launches[-1].arguments
        assert [len(argument) for argument in arguments] == [size for _, size in image.parameters]


@in_child
def test_code_runs_by_the_rules_of_binary_compatibility(cubins: Cubins) -> None:
    devices = [75, 80, 86, 87, 89, 90, 100, 103, 120, 121, 130]
    driver = FakeDriver(devices)
    value = ctypes.c_int()

    def runs(sm: int, *, specific: bool = False) -> list[int]:
        library = load(driver, labelled(cubins[86], sm, specific=specific))
        kernel = made(driver, "cuLibraryGetKernel", library, KERNEL)
        found = []
        for number, device in enumerate(devices):
            with driver.create_context(number):
                try:
                    driver.call("cuKernelGetAttribute", ctypes.byref(value), 4, kernel, number)
                    made(driver, "cuKernelGetFunction", kernel)
                except CudaError as error:
                    assert error.name == "CUDA_ERROR_NO_BINARY_FOR_GPU"  # noqa: PT017 - both outcomes count
                    fails("NO_BINARY_FOR_GPU", made, driver, "cuKernelGetFunction", kernel)
                    fails("NO_BINARY_FOR_GPU", launch, driver, kernel, None)
                else:
                    found.append(device)
        return found

    assert runs(75) == [75]
    assert runs(80) == [80, 86, 89]  # 8.7 is an integrated GPU
    assert runs(86) == [86, 89]
    assert runs(87) == [87]
    assert runs(89) == [89]
    assert runs(90) == runs(90, specific=True) == [90]
    assert runs(100) == [100, 103]
    assert runs(100, specific=True) == [100]
    assert runs(120) == [120, 121]
    assert runs(120, specific=True) == [120]
    fails("NO_BINARY_FOR_GPU", load, driver, labelled(cubins[86], 91, specific=False))


@in_child
def test_what_is_no_cubin_is_an_invalid_image(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    code = cubins[86]
    padding = bytes(1 << 16)
    for damaged in (
        b"text\0" + padding,
        patched(code, 0, b"\x7eELF"),
        patched(code, 4, b"\x01"),  # 32 bits
        patched(code, 8, b"\x06"),  # an ABI that nobody knows
        patched(code, 18, b"\x3e\x00"),  # for x86-64
        patched(code, 40, struct.pack("<Q", 1 << 60)),  # sections far outside
        patched(code, 58, b"\x00\x00"),  # section headers of no size
    ):
        fails("INVALID_IMAGE", load, driver, damaged)
    fails("INVALID_VALUE", made, driver, "cuLibraryLoadData", None, None, None, 0, None, None, 0)
    fails("NOT_FOUND", made, driver, "cuLibraryGetKernel", load(driver, code), b"another")
    fails("INVALID_HANDLE", made, driver, "cuLibraryGetKernel", ctypes.c_void_p(123), KERNEL)


@in_child
def test_shared_memory_must_be_opted_in_to_for_each_device(cubins: Cubins) -> None:
    driver = FakeDriver([86, 89])
    first, second = driver.create_context(0), driver.create_context(1)
    kernel = kernel_of(driver, cubins)
    fails("INVALID_VALUE", driver.call, "cuKernelSetAttribute", 8, 100 << 10, kernel, 0)
    fails("INVALID_VALUE", driver.call, "cuKernelSetAttribute", 8, -1, kernel, 0)
    fails("INVALID_VALUE", driver.call, "cuKernelSetAttribute", 4, 1, kernel, 0)
    fails("INVALID_DEVICE", driver.call, "cuKernelSetAttribute", 8, 1, kernel, 2)
    driver.call("cuKernelSetAttribute", 8, 64 << 10, kernel, 0)
    (record,) = driver.records(AttributeSetting)
    assert (record.kernel, record.attribute, record.value, record.device) == (KERNEL.decode(), 8, 64 << 10, 0)
    with first:
        launch(driver, kernel, None, shared=64 << 10)
        fails("INVALID_VALUE", partial(launch, driver, kernel, None, shared=(64 << 10) + 1))
    with second:
        fails("INVALID_VALUE", partial(launch, driver, kernel, None, shared=64 << 10))


# PTX.


@in_child
def test_ptx_runs_on_its_target_and_all_that_are_newer() -> None:
    driver = FakeDriver([86, 89, 90, 120, 130])
    driver.create_context(0)
    library, notes, errors = load_ptx(driver, PTX)
    assert (notes, errors) == ("compiled for each device from sm_89 on\n", "nothing")
    (loaded,) = driver.records(LibraryLoad)
    digest = hashlib.sha256(PTX.encode()).hexdigest()
    assert (loaded.kind, loaded.sm, loaded.size, loaded.sha256) == ("ptx", 89, len(PTX), digest)
    kernel = made(driver, "cuLibraryGetKernel", library, b"one")
    fails("INVALID_PTX", made, driver, "cuKernelGetFunction", kernel)
    value = ctypes.c_int()
    fails("INVALID_PTX", driver.call, "cuKernelGetAttribute", ctypes.byref(value), 0, kernel, 0)
    for device in range(1, 5):
        driver.create_context(device)
        assert made(driver, "cuKernelGetFunction", kernel)
    fails("NOT_FOUND", made, driver, "cuLibraryGetKernel", library, b"helper")
    fails("NOT_FOUND", made, driver, "cuLibraryGetKernel", library, b"in_a_comment")
    assert made(driver, "cuLibraryGetKernel", library, b"two")


@in_child
def test_launch_of_ptx_takes_what_its_entry_function_declares() -> None:
    driver = FakeDriver([90])
    driver.create_context()
    kernel = made(driver, "cuLibraryGetKernel", load_ptx(driver, PTX)[0], b"one")
    values: list[Any] = [ctypes.c_uint64(5), ctypes.c_int16(-2), (ctypes.c_char * 12).from_buffer_copy(b"twelve bytes")]
    addresses = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))

    def launch_with(*block: int) -> None:
        extents = (ctypes.c_uint(n) for n in (3, 1, 1, *block, 0))
        driver.call("cuLaunchKernel", kernel, *extents, None, addresses, None)

    launch_with(64, 2, 1)
    (launched,) = driver.launches
    assert launched.arguments == (struct.pack("<Q", 5), struct.pack("<h", -2), b"twelve bytes")
    assert (launched.kernel, launched.block) == ("one", (64, 2, 1))
    fails("INVALID_VALUE", launch_with, 64, 1, 1)


@pytest.mark.parametrize(
    ("old", "new", "error", "cause"),
    [
        pytest.param("8.0", "8.9", "UNSUPPORTED_PTX_VERSION", "line 3; fatal: unsupported .version 8.9", id="version"),
        pytest.param("8.0", "8", "INVALID_PTX", "'8' is no version", id="no version"),
        pytest.param("sm_89", "sm_100", "INVALID_PTX", "fatal: .target sm_100 is not for any device", id="target"),
        pytest.param("sm_89", "sm_89a", "INVALID_PTX", "fatal: .target sm_89 is not for any device", id="specific"),
        pytest.param("sm_89", "gfx90", "INVALID_PTX", "'gfx90' is no target", id="no target"),
        pytest.param(".target", ".tarjet", "INVALID_PTX", "expected .target before '.tarjet'", id="no directive"),
        pytest.param("{ ret; }\n.vis", "{ ret;\n.vis", "INVALID_PTX", "a function's body does not end", id="cut off"),
        pytest.param(".param .u16 ", ".param ", "INVALID_PTX", "a parameter has no type", id="no type"),
        pytest.param(".param .u16 ", ".u16 ", "INVALID_PTX", "expected .param before '.u16'", id="no parameter"),
        pytest.param("[12]", "[12", "INVALID_PTX", "expected ] before ')'", id="bracket"),
        pytest.param(".version 8.0", "", "INVALID_IMAGE", "", id="no PTX"),
    ],
)
@in_child
def test_ptx_that_does_not_compile_is_refused_with_a_log(old: str, new: str, error: str, cause: str) -> None:
    driver = FakeDriver([90])
    driver.create_context()
    assert PTX.count(old) == 1
    with pytest.raises(CudaError) as caught:
        load_ptx(driver, PTX.replace(old, new))
    assert caught.value.name == f"CUDA_ERROR_{error}"
    (log,) = caught.value.__notes__
    assert cause in log
    assert driver.records(LibraryLoad) == ()
    fails(error, load, driver, PTX.replace(old, new).encode())  # and nobody needs to ask for it


@in_child
def test_log_is_cut_to_its_buffer() -> None:
    driver = FakeDriver([90])
    driver.create_context()
    with pytest.raises(CudaError) as caught:
        load_ptx(driver, PTX.replace("8.0", "9.0"), size=20)
    assert caught.value.__notes__ == ["ptx input, line 3; "]


@in_child
def test_other_options_of_the_compiler_are_not_known() -> None:
    driver = FakeDriver([90])
    driver.create_context()
    options, values = (ctypes.c_int * 1)(7), (ctypes.c_void_p * 1)(4)  # CU_JIT_OPTIMIZATION_LEVEL
    arguments = (options, values, ctypes.c_uint(1), None, None, ctypes.c_uint(0))
    fails("NOT_SUPPORTED", made, driver, "cuLibraryLoadData", PTX.encode(), *arguments)


# Launches.


@in_child
def test_launch_is_recorded_with_the_bytes_of_every_argument(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    stream = context.create_stream()
    kernel = kernel_of(driver, cubins)
    launch(driver, kernel, stream, grid=(3, 2, 1))
    assert driver.launches == (
        Launch(
            name="cuLaunchKernel",
            result="CUDA_SUCCESS",
            context=context.handle,
            kernel=KERNEL.decode(),
            sha256=hashlib.sha256(cubins[86]).hexdigest(),
            grid=(3, 2, 1),
            block=(THREADS, 1, 1),
            shared=16,
            stream=stream.handle,
            owner=context.handle,
            captured=False,
            arguments=(
                *(struct.pack("<Q", i) for i in range(5)),
                struct.pack("<i", -2),
                struct.pack("<f", 0.5),
                bytes(8),
                bytes(8),
            ),
        ),
    )


@in_child
def test_launch_that_no_device_can_run_is_refused(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    driver.create_context()
    kernel = kernel_of(driver, cubins)
    options: list[dict[str, Any]] = [
        {"grid": (0, 1, 1)},
        {"grid": (1, 65536, 1)},
        {"grid": (1, 1, 65536)},
        {"grid": (1 << 31, 1, 1)},
        {"block": (64, 1, 1)},  # the kernel requires 256 threads
        {"block": (2048, 1, 1)},
        {"block": (1, 1, 256)},
        {"shared": 49 << 10},
    ]
    for option in options:
        fails("INVALID_VALUE", partial(launch, driver, kernel, None, **option))
    fails("INVALID_HANDLE", launch, driver, ctypes.c_void_p(0), None)
    assert not driver.launches
    launch(driver, kernel, None, grid=((1 << 31) - 1, 65535, 65535))


@in_child
def test_kernel_is_launched_in_the_streams_context_and_a_function_only_in_its_own(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    first = driver.create_context()
    stream = first.create_stream()
    kernel = kernel_of(driver, cubins)
    second = driver.create_context()
    function = made(driver, "cuKernelGetFunction", kernel)
    launch(driver, kernel, stream)
    launch(driver, function, None)
    assert [(record.owner, record.context) for record in driver.launches] == [
        (first.handle, second.handle),
        (second.handle, second.handle),
    ]
    fails("INVALID_HANDLE", launch, driver, function, stream)
    stream.destroy()
    fails("INVALID_HANDLE", launch, driver, kernel, stream)


# Capture.


def unsafe_calls(driver: FakeDriver, cubins: Cubins) -> dict[str, Callable[[], object]]:
    code = cubins[86]
    first_used = kernel_of(driver, cubins)
    memory = driver.allocate(64)
    return {
        "cuMemAlloc": lambda: driver.allocate(64),
        "cuMemFree": lambda: driver.free(memory),
        "cuLibraryLoadData": lambda: load(driver, code),
        "cuKernelGetFunction": lambda: made(driver, "cuKernelGetFunction", first_used),
    }


@in_child
def test_unsafe_calls_break_the_captures_that_forbid_them(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    kernel = kernel_of(driver, cubins)
    launch(driver, kernel, None)
    modes: tuple[CaptureMode, ...] = ("global", "thread_local")
    for name, call in unsafe_calls(driver, cubins).items():
        for mode in modes:
            stream = context.create_stream()
            stream.begin_capture(mode)
            fails("STREAM_CAPTURE_UNSUPPORTED", call)
            assert stream.capture_status() == "invalidated", name
            fails("STREAM_CAPTURE_INVALIDATED", launch, driver, kernel, stream)
            fails("STREAM_CAPTURE_INVALIDATED", stream.end_capture)
            assert stream.capture_status() == "none"


@in_child
def test_unsafe_calls_pass_in_a_relaxed_capture_and_in_a_relaxed_thread(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    for call in unsafe_calls(driver, cubins).values():
        with context.create_stream().capture("relaxed"):
            call()
    for call in unsafe_calls(driver, cubins).values():
        with context.create_stream().capture("global"):
            mode = ctypes.c_int(RELAXED)
            driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            assert mode.value == 0
            call()
            driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            assert mode.value == RELAXED
    modes = [(record.mode, record.previous) for record in driver.records(CaptureModeExchange)]
    assert modes == [(RELAXED, 0), (0, RELAXED)] * 4
    assert {record.mode for record in driver.records(CaptureBegin)} == {0, RELAXED}


@in_child
def test_other_threads_are_forbidden_only_what_both_modes_say() -> None:
    driver = FakeDriver([86])
    context = driver.create_context()

    def allocate(mode: int) -> None:
        context.make_current()
        driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(mode)))
        driver.allocate(16)

    outcomes = {}
    captures: tuple[CaptureMode, ...] = ("global", "thread_local", "relaxed")
    for capture in captures:
        for thread in range(3):
            stream = context.create_stream()
            stream.begin_capture(capture)
            try:
                in_thread(lambda thread=thread: allocate(thread))  # type: ignore[misc]
            except CudaError:
                outcomes[capture, thread] = stream.capture_status()
            else:
                stream.end_capture()
            stream.destroy()
    assert outcomes == {("global", 0): "invalidated"}


@in_child
def test_copies_and_the_legacy_stream_break_a_blocking_streams_capture_alone(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    other, context = driver.create_context(), driver.create_context()
    memory, kernel = driver.allocate(16), kernel_of(driver, cubins)
    launch(driver, kernel, None)
    calls: list[Callable[[], object]] = [
        lambda: driver.copy_to_device(memory, b"x"),
        lambda: driver.copy_to_host(memory, 1),
        lambda: launch(driver, kernel, None),
        lambda: driver.synchronize(0),
    ]
    for call in calls:
        with context.create_stream(blocking=False).capture():
            call()
        stream = context.create_stream(blocking=True)
        stream.begin_capture("relaxed")
        fails("STREAM_CAPTURE_IMPLICIT", call)
        fails("STREAM_CAPTURE_INVALIDATED", stream.end_capture)
        with stream.capture(), other:
            driver.copy_to_device(memory, b"x")  # by the other context's legacy stream
    stream = context.create_stream(blocking=True)
    with stream.capture():  # asking is harmless
        fails("STREAM_CAPTURE_IMPLICIT", driver.call, "cuStreamIsCapturing", None, ctypes.byref(ctypes.c_int()))


@in_child
def test_waiting_and_a_failed_launch_break_a_capture(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    kernel = kernel_of(driver, cubins)
    launch(driver, kernel, None)
    for error, call in (
        ("STREAM_CAPTURE_UNSUPPORTED", lambda stream: stream.synchronize()),
        ("STREAM_CAPTURE_UNSUPPORTED", lambda _: driver.call("cuCtxSynchronize")),
        ("INVALID_VALUE", lambda stream: launch(driver, kernel, stream, grid=(0, 1, 1))),
    ):
        stream = context.create_stream()
        stream.begin_capture("relaxed")
        fails(error, call, stream)
        fails("STREAM_CAPTURE_INVALIDATED", launch, driver, kernel, stream)
        fails("STREAM_CAPTURE_INVALIDATED", stream.end_capture)


@in_child
def test_captured_launches_are_marked(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    stream = driver.create_context().create_stream()
    kernel = kernel_of(driver, cubins)
    launch(driver, kernel, stream)
    with stream.capture():
        assert stream.capture_status() == "active"
        launch(driver, kernel, stream)
    assert [record.captured for record in driver.launches] == [False, True]


@in_child
def test_captures_begin_and_end_as_documented() -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    stream = context.create_stream()
    fails("ILLEGAL_STATE", stream.end_capture)
    fails("STREAM_CAPTURE_UNSUPPORTED", driver.call, "cuStreamBeginCapture", None, 0)
    fails("INVALID_VALUE", driver.call, "cuStreamBeginCapture", ctypes.c_void_p(stream.handle), 3)
    fails("INVALID_VALUE", driver.call, "cuThreadExchangeStreamCaptureMode", None)
    stream.begin_capture()
    fails("ILLEGAL_STATE", stream.begin_capture)
    fails("STREAM_CAPTURE_WRONG_THREAD", in_thread, stream.end_capture)
    assert stream.capture_status() == "none"
    stream.begin_capture("relaxed")
    in_thread(stream.end_capture)
    assert stream.capture_status() == "none"


# What tests control.


@in_child
def test_any_call_can_be_made_to_fail_once() -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    driver.fail("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", occurrence=2)
    driver.fail("cuMemAlloc", "CUDA_ERROR_ILLEGAL_ADDRESS", occurrence=3)
    driver.clear()
    driver.allocate(16)
    driver.fail("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", occurrence=2)
    driver.fail("cuMemAlloc", "CUDA_ERROR_ILLEGAL_ADDRESS", occurrence=3)
    driver.allocate(16)
    fails("OUT_OF_MEMORY", driver.allocate, 16)
    fails("ILLEGAL_ADDRESS", driver.allocate, 16)
    driver.allocate(16)
    results = [call.result.removeprefix("CUDA_") for call in driver.records(Call)]
    assert results == ["SUCCESS", "SUCCESS", "ERROR_OUT_OF_MEMORY", "ERROR_ILLEGAL_ADDRESS", "SUCCESS"]
    assert {call.context for call in driver.records(Call)} == {context.handle}
    assert len(driver.records(Allocation)) == 3


@in_child
def test_unknown_calls_and_errors_are_named() -> None:
    driver = FakeDriver([86])
    with pytest.raises(FakeDriverError, match="has no call 'cuMalloc'"):
        driver.fail("cuMalloc", "CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(FakeDriverError, match="cannot fail with 'OUT_OF_MEMORY' at occurrence 1"):
        driver.fail("cuMemAlloc", "OUT_OF_MEMORY")
    with pytest.raises(FakeDriverError, match="given no device"):
        FakeDriver([])


@in_child
def test_threads_may_call_at_once(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    context = driver.create_context()
    kernel = kernel_of(driver, cubins)

    def work(_: int) -> None:
        context.make_current()
        stream = context.create_stream()
        for _ in range(50):
            address = driver.allocate(64)
            launch(driver, kernel, stream)
            driver.free(address)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(driver.launches) == len(driver.records(Free)) == 400


@in_child
def test_records_of_odd_symbols_are_readable(cubins: Cubins) -> None:
    driver = FakeDriver([86])
    odd = b'add"\\rms\x01orm'
    code = cubins[86].replace(KERNEL, odd)
    made(driver, "cuLibraryGetKernel", load(driver, code), odd)
    assert json.dumps(driver.records(Call)[-1].name) == '"cuLibraryGetKernel"'
