"""Makes the directory of a bundle again, from its manifest and the cubin cache."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from hatch_tensoracle.bundle import Bundle, Ptx
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.render import write_bundle
from tensoracle_producer.replace import replaced_directory
from tensoracle_producer.toolchain import Toolchain

__all__ = ["restore_bundle"]


def restore_bundle(manifest: bytes, keys: Mapping[str, str], toolchain: Toolchain, directory: Path) -> Bundle | None:
    """Write the directory, as `compile_bundle` does. None, and nothing is written, if the cache has not all of it.

    `keys` holds the key in the cubin cache of every file of code. Raises ManifestError.
    """
    bundle = Bundle.parse(manifest, "the record of an earlier build")
    known = CubinCache(toolchain).read(list(keys.values()))
    files = {}
    for _, code in bundle.codes():
        compiled = known.get(keys.get(code.file, ""))
        content = compiled.content(is_ptx=isinstance(code, Ptx)) if compiled is not None else b""
        if hashlib.sha256(content).hexdigest() != code.sha256:
            return None
        files[code.file] = content
    with replaced_directory(directory) as fresh:
        write_bundle(bundle, manifest, files, fresh)
    return bundle
