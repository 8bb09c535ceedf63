"""The native program that times launches: its compilation, its command lines and what it prints."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from part import ROOT, Setting

from hatch_tensoracle._process import cxx_compiler
from hatch_tensoracle._process import run as run_tool
from hatch_tensoracle.bundle import Cubin, Entry

__all__ = ["LAUNCHES", "Launch", "LaunchProgram", "What"]

What = Literal["enqueue", "plugin", "bare", "all", "empty"]
"""`all` is `bare` with the kernel's other variants loaded too, as a plugin has them; `empty` loads an empty library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch that both sides do: a plugin, and what of its kernel the shapes and arguments lead to."""

    case: str
    plugin: str
    bundle: Literal["example", "launch"]
    kernel: str
    configuration: int = 0
    variant: int = 0
    last: int = 16
    """The kernel's last argument, where the plugin has it as a field."""


LAUNCHES = (
    Launch(case="5 arguments, first variant", plugin="Five", bundle="launch", kernel="five"),
    Launch(case="5 arguments, second variant", plugin="Five", bundle="launch", kernel="five", variant=1, last=17),
    Launch(case="20 arguments, first variant", plugin="Twenty", bundle="launch", kernel="twenty"),
    Launch(case="20 arguments, second variant", plugin="Twenty", bundle="launch", kernel="twenty", variant=1, last=17),
    Launch(
        case="AddRmsNorm, 7 arguments",
        plugin="AddRmsNorm",
        bundle="example",
        kernel="add_rms_norm_fp16",
        configuration=1,
    ),
)


class LaunchProgram:
    """launches.cpp, compiled with the compiler of this machine."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        directory = Path(tempfile.mkdtemp(prefix="launches-"))
        weakref.finalize(self, shutil.rmtree, directory)
        self._program = directory / "launches"
        source = Path(__file__).with_name("launches.cpp")
        include = ROOT / "cpp" / "include"
        command: list[str | Path] = [
            *cxx_compiler(),
            "-std=c++17",
            "-O2",
            "-I",
            include,
            source,
            "-o",
            self._program,
            "-ldl",
        ]
        run_tool(command, what="The compiler of launches.cpp")
        self._empty = directory / "libempty.so"
        command = [*cxx_compiler(), "-shared", "-fPIC", "-x", "c++", "/dev/null", "-o", self._empty]
        run_tool(command, what="The compiler of an empty library")

    def run(self, what: What, launch: Launch, *numbers: int) -> dict[str, list[float]]:
        """Run it in a process of its own. Nanoseconds by series. Raises RuntimeError with what it printed."""
        setting = self._setting
        bundle, directory = setting.bundle(launch.bundle)
        kernel = (launch.kernel, launch.configuration)
        variants = [each for each in bundle.entries if (each.kernel, each.configuration) == kernel]
        entry = variants.pop(launch.variant)
        cubin = _cubin(entry, f"sm{setting.fake_sm or _sm()}")
        library = setting.launch_library if launch.bundle == "launch" else setting.example_library
        if what == "empty":
            library = self._empty
        identity = [launch.plugin, launch.last, setting.driver, setting.fake_sm, library.resolve()]
        code = [directory / cubin.file, entry.symbol, cubin.threads, cubin.dynamic_shared]
        others = (
            [text for each in variants for text in (directory / _cubin(each, cubin.target).file, each.symbol)]
            if what == "all"
            else []
        )
        mode = "bare" if what == "all" else what
        command = list(map(str, [self._program, mode, *identity, *code, *others, *numbers]))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            message = f"launches {what} failed with status {done.returncode}: {(done.stderr or done.stdout).strip()}"
            raise RuntimeError(message)
        lines = (line.split() for line in done.stdout.splitlines())
        return {name.replace("bare", what): list(map(float, values)) for name, *values in lines}


def _cubin(entry: Entry, target: str) -> Cubin:
    cubins = {cubin.target: cubin for cubin in entry.cubins}
    if target not in cubins:
        message = f"the libraries have no cubins for {target}; they have {', '.join(cubins)}: pack them with it"
        raise RuntimeError(message)
    return cubins[target]


def _sm() -> int:
    """Of the first GPU."""
    import ctypes

    from hatch_tensoracle.testing import Cuda

    cuda = Cuda()
    numbers = [ctypes.c_int() for _ in range(2)]
    for attribute, number in zip((75, 76), numbers, strict=True):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
        cuda.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, 0)
    return numbers[0].value * 10 + numbers[1].value
