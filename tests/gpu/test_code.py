"""What the real driver and the launcher say of code that is missing, damaged, or not what its record says."""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from testing.child import in_child

from gpu.machine import Machine, packed
from gpu.work import Execution, session
from hatch_tensoracle import Bundle
from hatch_tensoracle.bundle import Ptx
from hatch_tensoracle.testing import PluginFailedError, PluginHarness

KIND, KERNEL, SHAPE = "norm fp16", "add_rms_norm_fp16", (3, 1024)
_SM_BEHIND_DIGEST = 52
"""Bytes from the digest to the SM in a CodeRecord (cpp/include/tensoracle/bundle_entry.hpp)."""
_LEAST = 90
"""From this SM on no cubin for sm86 or sm89 runs."""


@pytest.fixture
def older(machine: Machine) -> Path:
    """The example's library without anything that this GPU runs."""
    if machine.sms[0] < _LEAST:
        pytest.skip(f"a GPU of SM {machine.sms[0] / 10} may run what is compiled for sm86 and sm89")
    return packed("older")


def bundle_of(library: Path) -> Bundle:
    manifest = library.with_suffix(".bundle.json")
    return Bundle.parse(manifest.read_bytes(), str(manifest))


@in_child
def test_error_lists_what_is_shipped(library: Path, older: Path, machine: Machine) -> None:
    sm = machine.sms[0]
    refused(
        library,
        older,
        f"kernel {KERNEL}#0: no code runs on this device of sm_{sm}; the library has sm_86, sm_89: "
        f"add sm{sm} to its build's targets",
    )


@in_child
def test_flipped_byte_of_a_cubin_is_refused_by_its_digest(library: Path, machine: Machine, tmp_path: Path) -> None:
    bundle = bundle_of(library)
    (cubin,) = {
        cubin
        for entry, cubin in bundle.cubins()
        if (entry.kernel, entry.configuration, entry.variant, cubin.target) == (KERNEL, 0, 0, f"sm{machine.sms[0]}")
    }
    image = bytearray(library.read_bytes())
    at = image.find(b"\x7fELF", 1)
    while hashlib.sha256(image[at : at + cubin.size]).hexdigest() != cubin.sha256:
        at = image.index(b"\x7fELF", at + 1)
    image[at + cubin.size // 2] ^= 1
    observed = hashlib.sha256(image[at : at + cubin.size]).hexdigest()
    (tmp_path / "libflipped.so").write_bytes(image)
    refused(
        library,
        tmp_path / "libflipped.so",
        f"the embedded code has SHA-256 {observed}, the bundle records {cubin.sha256}: "
        "the library is damaged; build or install it again",
    )


@in_child
def test_cubin_for_another_gpu_than_its_record_says_is_refused_by_the_driver(
    library: Path, older: Path, machine: Machine, tmp_path: Path
) -> None:
    image = bytearray(older.read_bytes())
    digests = {bytes.fromhex(cubin.sha256) for _, cubin in bundle_of(older).cubins() if cubin.target == "sm89"}
    changed = 0
    for digest in digests:
        at = image.find(digest)
        while at >= 0:
            assert struct.unpack_from("<H", image, at + _SM_BEHIND_DIGEST) == (89,)
            struct.pack_into("<H", image, at + _SM_BEHIND_DIGEST, machine.sms[0])
            changed += 1
            at = image.find(digest, at + 1)
    assert changed >= len(digests) > 0
    (tmp_path / "liblying.so").write_bytes(image)
    refused(library, tmp_path / "liblying.so", "CUDA_ERROR_NO_BINARY_FOR_GPU (209)")


@pytest.mark.usefixtures("older")
@in_child
def test_ptx_that_the_driver_cannot_compile_is_told_with_its_log(library: Path, tmp_path: Path) -> None:
    path = packed("ptx")
    image = bytearray(path.read_bytes())
    for entry in bundle_of(path).entries:
        if entry.kernel == KERNEL:
            assert entry.ptx is not None
            make_unknown(image, entry.ptx)
    (tmp_path / "libunknown.so").write_bytes(image)
    refused(library, tmp_path / "libunknown.so", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)")
    refused(library, tmp_path / "libunknown.so", "Unsupported .version 9.9")


def make_unknown(image: bytearray, ptx: Ptx) -> None:
    """Let the text be of a version that no driver knows, and its record's digest be of that text."""
    version = f".version {ptx.version}".encode()
    starts = (at - before for at in places(image, version) for before in range(300))
    (at,) = {at for at in starts if hashlib.sha256(image[at : at + ptx.size]).hexdigest() == ptx.sha256}
    unknown = b".version 9.9"
    assert len(unknown) == len(version)
    image[at : at + ptx.size] = image[at : at + ptx.size].replace(version, unknown, 1)
    changed = hashlib.sha256(image[at : at + ptx.size]).digest()
    records = places(image, bytes.fromhex(ptx.sha256))
    assert records
    for record in records:
        image[record : record + len(changed)] = changed


def places(image: bytearray, part: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(part), image)]


def refused(good: Path, bad: Path, reason: str) -> None:
    """Let a library's kernel be refused, twice, with that in the message; a whole library runs on in the process."""
    with session(good, complains=True) as at:
        execution = Execution(at, KIND, SHAPE)
        with PluginHarness(bad) as harness:
            for _ in range(2):
                other = Execution(replace(at, harness=harness), KIND, SHAPE)
                with pytest.raises(PluginFailedError) as caught:
                    other.enqueue()
                assert any(reason in message and KERNEL in message for message in caught.value.messages), caught.value
            complaints = len(at.complaints())
        execution.enqueue()
        at.cuda.synchronize(0)
        execution.check()
        assert len(at.complaints()) == complaints
