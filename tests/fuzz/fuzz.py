"""Damages good artifacts by chance and has them inspected: `python tests/fuzz/fuzz.py --count 100000 [--seed N]`.

Whatever they are like, inspection ends in seconds, with defects that have known ids and can be shown in every format.
An input that breaks this is made small by Hypothesis and printed. COUNT is shared among the readers.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import functools
import hashlib
import io
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.bundles import collect
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.damage import CORPUS, damaged_bytes, damaged_library, damaged_manifest, damaged_text, damaged_wheel
from hatch_tensoracle import errors
from hatch_tensoracle.bundle import Bundle, Code, Ptx
from hatch_tensoracle.code_checks import check_code
from hatch_tensoracle.elf import ElfError, read_cubin
from hatch_tensoracle.errors import BundleError, ManifestError
from hatch_tensoracle.html_report import to_html
from hatch_tensoracle.inspection import check_library, check_wheel
from hatch_tensoracle.ptx import PtxError, read_ptx
from hatch_tensoracle.report import Finding, to_github, to_json, to_text

__all__ = ["READERS", "fuzz", "main"]

WHEEL = CORPUS / "pkg-1.0-py3-none-linux_x86_64.whl"
MANIFEST = (CORPUS / "bundle.json").read_bytes()
LIBRARY = (CORPUS / "library.elf").read_bytes()
PTX = (CORPUS / "code.sm89.ptx").read_bytes()
IDS = {defect.id for name in errors.__all__ if issubclass(defect := getattr(errors, name), BundleError)}
SECONDS = 5.0
"""Of processor time for one input: all that good ones take is milliseconds, a machine's hiccup is less."""
ROUND = 2000
"""Inputs of one run of Hypothesis, which keeps them all in memory."""
MEMORY = 2 << 30


def read_damaged_cubin(data: bytes) -> str:
    """Read a cubin, and check it as one whose digest fits."""
    try:
        read_cubin(data)
    except ElfError:
        outcome = "refused"
    else:
        outcome = "read"
    return f"{outcome}, {_show(check_code(ENTRY, _fitting(ENTRY.cubins[0], data), data, 'code'))}"


def read_damaged_ptx(data: bytes) -> str:
    """Read PTX, and check it as one whose digest fits."""
    try:
        read_ptx(data)
    except PtxError:
        outcome = "refused"
    else:
        outcome = "read"
    assert ENTRY.ptx is not None
    return f"{outcome}, {_show(check_code(ENTRY, _fitting(ENTRY.ptx, data), data, 'code'))}"


def read_damaged_manifest(data: bytes) -> str:
    """Read a manifest and show what it says."""
    try:
        bundle = Bundle.parse(data, "bundle.json")
    except ManifestError as defect:
        return _show([defect])
    return _show([], {"bundle.json": bundle})


def read_damaged_library(data: bytes) -> str:
    """Check a library against what it embeds and against the good manifest."""
    defects, bundle = collect(check_library(io.BytesIO(data), "libpkg.so", MANIFEST))
    return _show(defects, {"libpkg.so": bundle} if bundle is not None else {})


def read_damaged_wheel(data: bytes) -> str:
    """Check a wheel."""
    path = Path(_scratch()) / WHEEL.name
    path.write_bytes(data)
    return _show(*collect(check_wheel(path)))


@functools.cache
def _scratch() -> str:
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    return directory.name


_seen: set[str] = set()
"""Digests of bundles: the same bundle gives the same tables, which take longer than all the rest."""


def _fitting(code: Code, data: bytes) -> Code:
    return dataclasses.replace(code, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _show(defects: Iterable[BundleError], bundles: dict[str, Bundle] | None = None) -> str:
    """Report in every format, with the tables of bundles that were not shown before, and return the ids."""
    new = {name: bundle for name, bundle in (bundles or {}).items() if bundle.digest not in _seen}
    _seen.update(bundle.digest for bundle in new.values())
    finding = Finding(path="x", bundles=new, defects=list(defects))
    for show in (to_text, to_json, to_github, to_html):
        shown = show([finding])
        assert all(line.isprintable() for line in shown.splitlines()), "control characters reach the terminal"
        assert len(shown) < 1 << 20, "a report without end"
    ids = sorted({defect.id for defect in finding.defects})
    assert IDS.issuperset(ids)
    return " ".join(ids) or "no defect"


def _sections(data: bytes) -> list[int]:
    """Where the headers of an ELF file begin."""
    at, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    return [0, *range(at, at + 64 * count, 64)]


def _wheel_files() -> dict[str, bytes]:
    import zipfile

    with zipfile.ZipFile(WHEEL) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


(ENTRY,) = Bundle.parse(MANIFEST, "").entries
assert isinstance(ENTRY.ptx, Ptx)
_CUBINS = [file.read_bytes() for file in sorted(CORPUS.glob("*.cubin"))]
READERS: dict[str, tuple[st.SearchStrategy[bytes], Callable[[bytes], str]]] = {
    "cubin": (st.one_of([damaged_bytes(data, _sections(data)) for data in _CUBINS]), read_damaged_cubin),
    "ptx": (
        st.one_of(damaged_bytes(PTX), damaged_text(PTX.decode()).map(lambda text: text.encode(errors="surrogatepass"))),
        read_damaged_ptx,
    ),
    "manifest": (st.one_of(damaged_manifest(MANIFEST), damaged_bytes(MANIFEST)), read_damaged_manifest),
    "library": (damaged_library(LIBRARY, MANIFEST), read_damaged_library),
    "wheel": (damaged_wheel(WHEEL.read_bytes(), _wheel_files()), read_damaged_wheel),
}


def fuzz(reader: str, count: int, first_seed: int = 0) -> Counter[str]:
    """Have as many inputs read. Returns how often each outcome was; what breaks the promise is raised."""
    strategy, read = READERS[reader]
    outcomes: Counter[str] = Counter()

    def check(data: bytes) -> None:
        started = time.process_time()
        outcomes[read(data)] += 1
        assert time.process_time() - started < SECONDS, "a reader without end"

    for number, done in enumerate(range(0, count, ROUND)):
        run = settings(
            max_examples=min(ROUND, count - done),
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        run(seed(first_seed + number)(given(strategy)(check)))()
    return outcomes


def main(arguments: list[str] | None = None) -> None:
    """Fuzz every reader, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=READERS, action="append")
    options: Any = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # more would be a MemoryError
    readers = options.reader or list(READERS)
    for reader in readers:
        started = time.monotonic()
        outcomes = fuzz(reader, options.count // len(readers), options.seed)
        print(f"{reader}: {sum(outcomes.values())} inputs, {time.monotonic() - started:.0f} s", flush=True)
        for outcome, number in outcomes.most_common(12):
            print(f"  {number:7} {outcome}", flush=True)


if __name__ == "__main__":
    main()
