"""What happens to a process as a whole: without a driver, with an old one, forked, and when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tools import run, tool
from testing.child import in_child

from hatch_tensoracle.testing import PluginFailedError, PluginHarness, RunningPlugin
from launcher.launching import Session, X, argument, session

GIVEN = ["null", "null", argument("i32", 16), argument("i64", 1)]
TESTS = Path(__file__).resolve().parents[1]


def python(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh Python, which must end well."""
    preamble = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    command = [sys.executable, "-X", "faulthandler", "-c", preamble + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


# Loads the library without a harness, and lets a plugin of it look for the driver.
_ALONE = """
import ctypes
from hatch_tensoracle.testing.library import NativeHarness, PluginLibrary
from pathlib import Path
from hatch_tensoracle.testing import PluginHarness, abi
from hatch_tensoracle.testing.plugin import _descs
from launcher.launching import X
harness = PluginHarness(sys.argv[1])
plugin = harness.create("Launch", {"kernel": "guarded"})._plugin
descs = (abi.TensorDesc * 1)(X.desc((64,)))
for _ in range(2):
    assert plugin.ask("runtime", "OnShapeChange", descs, ctypes.c_int32(1), descs, ctypes.c_int32(1)) == -1
print(*(message.text for message in harness.messages), sep="\\n")
"""


def test_process_without_libcuda_is_told_what_to_do(library: Path) -> None:
    try:
        subprocess.run(
            [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], check=True, capture_output=True
        )
        pytest.skip("this machine has a driver")
    except subprocess.CalledProcessError:
        pass
    first, second = python(_ALONE, library).stdout.splitlines()
    assert first == second
    assert first.startswith("Launch: onShapeChange: libcuda.so.1 cannot be loaded (libcuda.so.1: cannot open shared")
    assert first.endswith("): install the NVIDIA driver, or make it visible in this container")


@pytest.fixture(scope="session")
def old_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libcuda.so.1 of CUDA 11: without libraries and kernels that belong to no context."""
    directory = tmp_path_factory.mktemp("old-driver")
    names = (
        *("cuGetErrorName", "cuGetErrorString", "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute"),
        *("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2"),
        *(
            "cuPointerGetAttribute",
            "cuMemcpyHtoDAsync_v2",
            "cuStreamCreate",
            "cuStreamDestroy_v2",
            "cuStreamSynchronize",
        ),
        *("cuThreadExchangeStreamCaptureMode", "cuLaunchKernel"),
    )
    (directory / "old.c").write_text("\n".join(f"int {name}(void) {{ return 3; }}" for name in names))
    library = directory / "libcuda.so.1"
    run(tool("gcc"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, directory / "old.c")
    return library


def test_too_old_driver_is_told_with_the_version_that_is_needed(library: Path, old_driver: Path) -> None:
    load = "import ctypes; ctypes.CDLL(sys.argv[2])\n"
    first, second = python(load + _ALONE, library, old_driver).stdout.splitlines()
    assert first == second
    assert first == (
        "Launch: onShapeChange: libcuda.so.1 has no cuLibraryLoadData: the NVIDIA driver is older than CUDA 12.0; "
        "update it to 525.60.13 or later"
    )


@in_child
def test_no_current_context_is_an_error(library: Path) -> None:
    with session(library) as at:
        running = at.make(kernel="guarded", arguments=" ".join(GIVEN))
        weights = at.make("Weights", weights=[1.0])
        at.driver.call("cuCtxSetCurrent", None)
        # The harness itself wants a context only where memory is allocated.
        for _ in range(2):
            assert "no CUDA context is current on this thread (cuCtxGetCurrent: none)" in _refusal(at, running)
        plugin = weights._plugin  # noqa: SLF001 - to attach without the harness's own check
        assert not plugin.ask("runtime", "AttachToContext", at.harness._harness.call("ResourceContext"))  # noqa: SLF001
        assert at.harness.messages[-1].text == (
            "Weights: attachToContext: no CUDA context is current on this thread: device memory belongs to a context"
        )


def _refusal(at: Session, running: RunningPlugin) -> str:
    with pytest.raises(PluginFailedError) as caught:
        at.enqueue(running)
    return caught.value.messages[-1]


@in_child
def test_forked_child_is_told_to_start_anew(library: Path) -> None:
    with session(library) as at:
        running = at.launch("guarded", GIVEN)
        parent, child = os.getpid(), os.fork()
        if child == 0:
            expected = (
                f"Launch: onShapeChange: process {os.getpid()} was forked from {parent}, which had used CUDA already; "
                'CUDA does not work in such a child: start it anew (Python: multiprocessing\'s "spawn" method)'
            )
            ok = at.refusal("tiled", GIVEN) == expected
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        at.enqueue(running)


@in_child
def test_fork_before_the_first_use_is_no_matter(library: Path) -> None:
    harness = PluginHarness(library)
    harness.create("Tuned").build([X])
    child = os.fork()
    with session(library) as at:
        at.launch("guarded", GIVEN)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


_ENDING = """
import atexit, gc, os, threading
from hatch_tensoracle.testing import FakeDriver, PluginHarness
from launcher.launching import Session
driver = FakeDriver([86])
driver.create_context()
at = Session(driver, PluginHarness(sys.argv[1]))
weights = at.make("Weights", weights=[1.0, 2.0])
tuned = at.make("Tuned")
at.enqueue(weights)
at.enqueue(tuned)
"""


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="references live"),
        pytest.param("sys.exit()", id="sys.exit"),
        pytest.param("at.driver.current_context().destroy()", id="context destroyed"),
        pytest.param("atexit.register(lambda: (weights.close(), tuned.close()))", id="closed at exit"),
        pytest.param("tuned.close(); weights.close(); at.driver.current_context().destroy()", id="in order"),
        pytest.param("at.driver.current_context().destroy(); weights.close(); tuned.close()", id="context first"),
        pytest.param("del at, driver, weights, tuned; gc.collect()", id="collected"),
        pytest.param(
            "thread = threading.Thread(target=lambda: (weights.close(), tuned.close())); thread.start(); thread.join()",
            id="on another thread",
        ),
        pytest.param(
            "context = driver.current_context()\n"
            "threading.Thread(target=lambda: (context.make_current(), at.enqueue(tuned))).start()",
            id="with a thread at work",
        ),
        pytest.param("globals().clear()", id="module cleared"),
    ],
)
def test_process_ends_well_however_plugins_end(library: Path, end: str) -> None:
    assert python(_ENDING + end, library).stderr == ""


@in_child
def test_closing_the_library_has_no_effect(library: Path) -> None:
    import _ctypes
    import ctypes

    with session(library) as at:
        running = at.launch("guarded", GIVEN)
        handle = ctypes.CDLL(str(library))._handle  # noqa: SLF001
        for _ in range(5):
            _ctypes.dlclose(handle)
        assert str(library) in Path("/proc/self/maps").read_text()
        at.enqueue(running)
        at.launch("tiled", GIVEN)
        assert len(at.driver.launches) == 3
