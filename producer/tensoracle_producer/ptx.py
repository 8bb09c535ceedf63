"""Makes PTX of Triton's fit to be compiled by drivers."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hatch_tensoracle._process import run
from hatch_tensoracle.errors import BuildError
from tensoracle_producer.toolchain import PTX_DRIVERS

__all__ = ["PtxDiffersError", "portable_ptx"]


class PtxDiffersError(Exception):
    """A driver's compiler could make something else of the PTX than was made here."""


def portable_ptx(ptx: str, sm: int, ptxas: Path, *, is_fused: bool) -> str:
    """Return the text under the oldest version of the PTX ISA that it can have.

    Triton writes the newest version that ptxas knows, whatever the text needs, and drivers refuse those that are newer
    than they are. A version will do if ptxas makes the same cubin under it, and makes it without any option: a driver's
    compiler contracts a*b+c where the text leaves it to it, whatever `is_fused` was here. Raises PtxDiffersError, or
    BuildError if ptxas does not take the text at all.
    """
    with tempfile.TemporaryDirectory() as directory:
        expected = _assemble(ptx, sm, ptxas, Path(directory), *([] if is_fused else ["--fmad=false"]))
        for version in PTX_DRIVERS:
            text = re.sub(r"^\.version \d+\.\d+$", f".version {version}", ptx, count=1, flags=re.MULTILINE)
            try:
                if _assemble(text, sm, ptxas, Path(directory)) == expected:
                    return text
            except BuildError:  # the text needs a newer version
                continue
    message = (
        f"ptxas, given no options, makes other code of the PTX under each of the versions {', '.join(PTX_DRIVERS)}"
    )
    raise PtxDiffersError(message)


def _assemble(ptx: str, sm: int, ptxas: Path, directory: Path, *options: str) -> bytes:
    source, cubin = directory / "kernel.ptx", directory / "kernel.cubin"
    source.write_text(ptx, encoding="utf-8")
    run([ptxas, f"--gpu-name=sm_{sm}", *options, source, "-o", cubin], what="ptxas")
    return cubin.read_bytes()
