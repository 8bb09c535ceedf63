"""What is done to good artifacts: bytes, values of JSON and files of wheels are changed, taken away and repeated."""

from __future__ import annotations

import copy
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from helpers.bundles import sealed
from helpers.wheels import DIST_INFO, record_of_files
from hypothesis import strategies as st

__all__ = ["CORPUS", "damaged_bytes", "damaged_library", "damaged_manifest", "damaged_text", "damaged_wheel"]

CORPUS = Path(__file__).parent / "corpus"

Draw = Callable[[st.SearchStrategy[Any]], Any]

_NUMBERS = [
    0,
    1,
    2,
    7,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 32,
    (1 << 63) - 1,
    (1 << 64) - 1,
]
_PATCHES = st.one_of(
    st.binary(min_size=1, max_size=4),
    st.builds(
        lambda number, form: struct.pack(form, number & ((1 << 8 * struct.calcsize(form)) - 1)),
        st.sampled_from(_NUMBERS),
        st.sampled_from(["<B", "<H", "<I", "<Q"]),
    ),
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 16, 1 << 31, 1 << 63, -(1 << 63), 1 << 70, 10**400, 0.5, 1e308]),
    st.text(max_size=20),
    st.sampled_from(
        ["sm86", "sm121", "*fp16", "../x", "cubins/a.cubin", "ptx/x.ptx", "\ud800", "\x1b[2J\n::error::x", "a" * 5000]
    ),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def damaged_bytes(draw: Draw, good: bytes, hot: Sequence[int] = ()) -> bytes:
    """Bytes that are overwritten, cut off, cut out, repeated or put in; `hot` are places where headers begin."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if hot and draw(st.booleans()):
            at = min(draw(st.sampled_from(hot)) + draw(st.integers(0, 63)), len(data))
        kind = draw(st.sampled_from(["overwrite"] * 6 + ["cut off", "cut out", "repeat", "put in"]))
        end = min(len(data), at + draw(st.integers(1, 400)))
        if kind == "overwrite":
            patch = draw(_PATCHES)
            data[at : at + len(patch)] = patch
        elif kind == "cut off":
            del data[at:]
        elif kind == "cut out":
            del data[at:end]
        elif kind == "repeat":
            data[at:at] = data[at:end] * draw(st.sampled_from([1, 2, 50]))
        else:
            data[at:at] = draw(_PATCHES)
    return bytes(data)


@st.composite
def damaged_text(draw: Draw, good: str) -> str:
    """Words and lines that are repeated, taken away, exchanged or replaced."""
    words = good.split(" ")
    for _ in range(draw(st.integers(1, 5))):
        at, other = draw(st.integers(0, len(words) - 1)), draw(st.integers(0, len(words) - 1))
        kind = draw(st.sampled_from(["exchange", "drop", "repeat", "replace", "insert"]))
        if kind == "exchange":
            words[at], words[other] = words[other], words[at]
        elif kind == "drop":
            words[at] = ""
        elif kind == "repeat":
            words[at : at + 1] = words[at : at + 1] * draw(st.sampled_from([2, 100]))
        elif kind == "replace":
            words[at] = draw(st.text(max_size=10))
        else:
            words.insert(
                at, draw(st.sampled_from(["{", "}", "/*", "*/", "//", "\n", ",", '"', "\0", "(", ")", ".entry"]))
            )
    return " ".join(words)


@st.composite
def damaged_manifest(draw: Draw, good: bytes) -> bytes:
    """Values that are replaced, removed or repeated, mostly with the digest that the content has then."""
    content = json.loads(good)
    for _ in range(draw(st.integers(1, 4))):
        parent, key = draw(st.sampled_from(_places(content)))
        kind = draw(st.sampled_from(["replace", "replace", "remove", "repeat"]))
        if kind == "replace":
            parent[key] = draw(_VALUES)
        elif kind == "remove":
            del parent[key]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        else:
            parent[draw(st.text(max_size=8))] = copy.deepcopy(parent[key])
        if not content:
            break
    if draw(st.integers(0, 9)):
        try:
            return sealed(content)
        except UnicodeEncodeError:  # half a surrogate pair has no digest
            pass
    return json.dumps(content).encode()


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Every container with every key or index that it has."""
    found, rest = [], [content]
    while rest:
        each = rest.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)):
            found.append((each, key))
            if isinstance(each[key], dict | list):
                rest.append(each[key])
    return found


@st.composite
def damaged_library(draw: Draw, good: bytes, manifest: bytes) -> bytes:
    """Bytes of the file, or the manifest inside it, that are damaged."""
    if draw(st.booleans()):
        (headers,) = struct.unpack_from("<Q", good, 40)
        (count,) = struct.unpack_from("<H", good, 60)
        hot = [0, *range(64, 64 + 56 * 8, 56), *range(headers, headers + 64 * count, 64)]
        return draw(damaged_bytes(good, hot))  # type: ignore[no-any-return]
    # Blanks may follow JSON: they make it as long as the section, which keeps the digest.
    inside = draw(damaged_manifest(manifest))
    return good.replace(manifest, inside[: len(manifest)].ljust(len(manifest)))


@st.composite
def damaged_wheel(draw: Draw, good: bytes, files: dict[str, bytes]) -> bytes:
    """The archive's own bytes, or files and names, that are damaged; then RECORD fits them, or does not."""
    if draw(st.booleans()):
        hot = [i for i in range(len(good)) if good.startswith(b"PK", i)]
        return draw(damaged_bytes(good, hot))  # type: ignore[no-any-return]
    content = dict(files)
    name = draw(st.sampled_from(sorted(content)))
    kind = draw(st.sampled_from(["bytes", "library", "manifest", "name", "text", "remove"]))
    if kind == "bytes":
        content[name] = draw(damaged_bytes(content[name]))
    elif kind == "library":
        content["pkg/libpkg.so"] = draw(damaged_library(files["pkg/libpkg.so"], files["pkg/libpkg.bundle.json"]))
    elif kind == "manifest":
        content["pkg/libpkg.bundle.json"] = draw(damaged_manifest(files["pkg/libpkg.bundle.json"]))
    elif kind == "name":
        content[draw(st.text(max_size=12))] = content.pop(name)
    elif kind == "remove":
        del content[name]
    record = record_of_files(content)
    if kind == "text":
        record = draw(damaged_text(record.replace(",", " , "))).replace(" ", "")
        wheel = f"{DIST_INFO}/WHEEL"
        content[wheel] = draw(damaged_text(files[wheel].decode())).encode(errors="surrogatepass")
    return _zipped({**content, f"{DIST_INFO}/RECORD": record.encode(errors="replace")}, good)


def _zipped(content: dict[str, bytes], otherwise: bytes) -> bytes:
    import io

    file = io.BytesIO()
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(zipfile.ZipInfo(name), data)
    except (UnicodeEncodeError, ValueError):  # a name that zipfile does not write
        return otherwise
    return file.getvalue()
