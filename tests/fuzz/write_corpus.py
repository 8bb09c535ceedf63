"""Writes the corpus, the good artifacts that the fuzzer damages: `python tests/fuzz/write_corpus.py`. Needs Triton."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.kernels import copy
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Compile one kernel for two targets and as PTX, and put a library and a wheel around it."""
    with tempfile.TemporaryDirectory() as name:
        bundle = Path(name) / "bundle"
        os.environ["TENSORACLE_CACHE_DIR"] = f"{name}/cache"
        arguments: list[Pointer | Scalar] = [Pointer("fp32"), Pointer("fp32", divisible_by=16), Scalar("i32")]
        spec = KernelSpec(copy, name="copy", arguments=arguments, constants={"BLOCK": 64})
        compile_bundle([spec], ["sm86", "sm120"], bundle, ptx="sm89")
        library = link_library(bundle, Path(name) / "libpkg.so", options=["-Wl,-s", "-Wl,-z,noseparate-code"])
        manifest = (bundle / "bundle.json").read_bytes()
        wheel = write_wheel(Path(name), {"pkg/libpkg.so": library.read_bytes(), "pkg/libpkg.bundle.json": manifest})
        CORPUS.mkdir(exist_ok=True)
        for code in [*(bundle / "cubins").iterdir(), *(bundle / "ptx").iterdir()]:
            shutil.copy(code, CORPUS / f"code{code.name.removeprefix('copy.0.0')}")
        shutil.copyfile(library, CORPUS / "library.elf")
        for file in (wheel, bundle / "bundle.json"):
            shutil.copy(file, CORPUS)


if __name__ == "__main__":
    main()
