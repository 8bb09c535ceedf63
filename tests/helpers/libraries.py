"""Links small plugin libraries: two exported functions around a bundle, or with one defect."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from helpers.bundles import embedded_code
from helpers.tools import run, tool

__all__ = ["link_library", "link_stub"]

_SECTIONS = """
__asm__(
    ".pushsection .tensoracle.manifest, \\"a\\", @progbits\\n"
    ".incbin \\"manifest\\"\\n"
    ".popsection\\n"
    ".pushsection .tensoracle.cubins, \\"a\\", @progbits\\n"
    ".balign 16\\n"
    ".incbin \\"cubins\\"\\n"
    ".popsection\\n");
"""


def link_library(  # noqa: PLR0913 - one for each defect
    bundle: Path | None,
    library: Path,
    *,
    exports: Sequence[str] = ("getCreators", "setLoggerFinder"),
    manifest: bytes | None = None,
    cubins: bytes | None = None,
    options: Sequence[str | Path] = (),
) -> Path:
    """Link `library` around the bundle directory, or around other bytes; without a bundle it embeds nothing."""
    compiler = tool("gcc")
    with tempfile.TemporaryDirectory() as name:
        parts = Path(name)
        source = "".join(f"int {export}(void) {{ return 0; }}\n" for export in exports)
        if bundle is not None:
            source += _SECTIONS
            (parts / "manifest").write_bytes((bundle / "bundle.json").read_bytes() if manifest is None else manifest)
            (parts / "cubins").write_bytes(embedded_code(bundle) if cubins is None else cubins)
        (parts / "library.c").write_text(source)
        library.parent.mkdir(parents=True, exist_ok=True)
        run(compiler, "-shared", "-fPIC", "-o", library.absolute(), "library.c", *options, cwd=parts)
    return library


def link_stub(directory: Path, soname: str) -> Path:
    """Link an empty library of that name, for others to need."""
    stub = directory / soname
    (directory / "stub.c").write_text("")
    run(tool("gcc"), "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", stub, directory / "stub.c")
    return stub
