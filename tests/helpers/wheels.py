"""Writes wheels, good ones and others."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DIST_INFO", "change_header", "record_of_files", "write_wheel"]

DIST_INFO = "pkg-1.0.dist-info"


def write_wheel(  # noqa: PLR0913 - one for each defect
    directory: Path,
    files: Mapping[str, bytes],
    *,
    tag: str = "py3-none-linux_x86_64",
    written_tag: str | None = None,
    record: str | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write a wheel of the files, with WHEEL and, unless another is given, a RECORD that fits."""
    wheel = directory / f"pkg-1.0-{tag}.whl"
    content = {
        f"{DIST_INFO}/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n",
        f"{DIST_INFO}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {written_tag or tag}\n".encode(),
        **files,
    }
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr(f"{DIST_INFO}/RECORD", record_of_files(content) if record is None else record)
    return wheel


def record_of_files(files: Mapping[str, bytes]) -> str:
    """RECORD of the files and of itself."""
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    return "".join([*rows, f"{DIST_INFO}/RECORD,,\n"])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


_CENTRAL = {"flags": (8, "<H"), "method": (10, "<H"), "size": (24, "<I"), "offset": (42, "<I")}
_LOCAL = {"flags": (6, "<H"), "method": (8, "<H"), "size": (22, "<I")}
"""Offset and format of fields of zip headers (APPNOTE.TXT, 4.3.7 and 4.3.12)."""


def change_header(wheel: Path, member: str, field: str, value: int) -> None:
    """Change a field in both headers of a member."""
    data = bytearray(wheel.read_bytes())
    for signature, length, fields in ((b"PK\1\2", 46, _CENTRAL), (b"PK\3\4", 30, _LOCAL)):
        if field in fields:
            start = -1
            while data[start + length : start + length + len(member)] != member.encode():
                start = data.index(signature, start + 1)
            offset, form = fields[field]
            struct.pack_into(form, data, start + offset, value)
    wheel.write_bytes(data)
