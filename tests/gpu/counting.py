"""Counts what a process calls in the real driver; see counting_driver.cpp."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from pathlib import Path

from hatch_tensoracle._process import cxx_compiler, run

__all__ = ["CountingDriver", "compile_counting_driver"]


def compile_counting_driver(directory: Path) -> Path:
    """Compile it below the directory."""
    library = directory / "libcuda.so.1"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1"]
    source = Path(__file__).with_name("counting_driver.cpp")
    run([*cxx_compiler(), *flags, source, "-o", library, "-ldl"], what="The compiler of the counting driver")
    return library


class CountingDriver:
    """The process's driver from now on; make it before anything else looks for libcuda.so.1."""

    def __init__(self, library: Path, real: str) -> None:
        os.environ["TENSORACLE_COUNTED_DRIVER"] = real
        self._library = ctypes.CDLL(str(library))
        self._library.countedCalls.restype = ctypes.c_long

    def calls(self) -> Counter[str]:
        """How often each function has been called, by the names that the library exports."""
        name = ctypes.c_char_p()
        found: Counter[str] = Counter()
        for i in range(1000):
            count = self._library.countedCalls(i, ctypes.byref(name))
            if name.value is None:
                break
            if count:
                found[name.value.decode()] = count
        return found
