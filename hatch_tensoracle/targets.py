"""The GPU generations that cubins are compiled for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

__all__ = ["DEFAULT_TARGETS", "MAX_THREADS", "TARGETS", "Target", "parse_ptx_target", "parse_target"]

MAX_THREADS = 1024
"""Threads per block that every target can run (CUDA C++ Programming Guide, table of compute capabilities)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One GPU generation."""

    sm: int
    """Ten times the compute capability: 86 for 8.6."""
    max_shared: int
    """Bytes of shared memory that one block can opt in to (same table as MAX_THREADS)."""

    @property
    def name(self) -> str:
        """The target as it is written in configuration and manifest: `sm86`."""
        return f"sm{self.sm}"


TARGETS = {
    f"sm{sm}": Target(sm=sm, max_shared=kib * 1024)
    for sm, kib in {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}.items()
}
DEFAULT_TARGETS = ("sm86", "sm89", "sm120")
_NEWEST_PORTABLE = 89
"""From the next SM on, Triton makes code for the architecture-specific `a` form."""


def parse_target(name: str) -> Target:
    """Return the target called `name`, such as `sm86`; ValueError names the known ones."""
    if name in TARGETS:
        return TARGETS[name]
    near = difflib.get_close_matches(name.replace("_", "").rstrip("af"), TARGETS, n=1, cutoff=0.7)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(TARGETS)}"
    message = f"unknown target `{name}`; {hint}"
    raise ValueError(message)


def parse_ptx_target(name: str) -> Target:
    """Return the target called `name` if PTX for it runs on newer GPUs too; ValueError says why it does not."""
    target = parse_target(name)
    if target.sm > _NEWEST_PORTABLE:
        message = (
            f"unusable PTX target `{name}`: from sm90 on Triton makes PTX for the architecture-specific form, here"
            f" sm_{target.sm}a, which runs on no other GPU; name sm{_NEWEST_PORTABLE} or an older one"
        )
        raise ValueError(message)
    return target
