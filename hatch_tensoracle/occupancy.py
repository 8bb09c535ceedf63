"""How many warps of a kernel can be resident on a multiprocessor at once.

Limits are those of the CUDA C++ Programming Guide 13.0, appendix Compute Capabilities, table "Technical Specifications
per Compute Capability". In what portions registers and shared memory are handed out, and that from 8.0 on a block takes
a kilobyte of shared memory more, says cuda_occupancy.h of CUDA 12.
"""

from __future__ import annotations

from dataclasses import dataclass

from hatch_tensoracle.bundle import Cubin
from hatch_tensoracle.targets import TARGETS

__all__ = ["MOST_REGISTERS", "Occupancy", "occupancy_of"]

MOST_REGISTERS = 64 << 10
"""32-bit registers of a multiprocessor, and the most of one block."""

_WARP = 32
_REGISTER_UNIT = 256
"""Registers of a warp are a multiple of it."""
_PARTITIONS = 4
"""A multiprocessor has four parts with a quarter of the registers each; a warp stays in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """Of one multiprocessor."""

    blocks: int
    warps: int
    shared_unit: int = 128
    reserved_shared: int = 1024
    """Bytes of each block that the system takes."""


_LIMITS = {
    75: _Limits(blocks=16, warps=32, shared_unit=256, reserved_shared=0),
    80: _Limits(blocks=32, warps=64),
    86: _Limits(blocks=16, warps=48),
    87: _Limits(blocks=16, warps=48),
    89: _Limits(blocks=24, warps=48),
    90: _Limits(blocks=32, warps=64),
    100: _Limits(blocks=32, warps=64),
    103: _Limits(blocks=32, warps=64),
    120: _Limits(blocks=24, warps=48),
    121: _Limits(blocks=24, warps=48),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What one multiprocessor holds of a kernel."""

    blocks: int
    warps: int
    most_warps: int
    """Of the multiprocessor."""
    limit: str
    """What is used up first: `registers`, `shared memory`, `warps` or `blocks`."""

    @property
    def fraction(self) -> float:
        """Resident warps, of those that there can be."""
        return self.warps / self.most_warps


def occupancy_of(cubin: Cubin) -> Occupancy:
    """Theoretical occupancy: of a grid that is large enough, launched with the threads and memory of the manifest."""
    target = TARGETS[cubin.target]
    limits = _LIMITS[target.sm]
    most_shared = target.max_shared + limits.reserved_shared  # one block may have all that there is
    warps = max(1, -(-cubin.threads // _WARP))
    registers = _up(max(1, cubin.registers) * _WARP, _REGISTER_UNIT)
    shared = _up(cubin.static_shared + cubin.dynamic_shared + limits.reserved_shared, limits.shared_unit)
    by_registers = MOST_REGISTERS // _PARTITIONS // registers * _PARTITIONS // warps
    fitting = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": by_registers if _up(warps, _PARTITIONS) * registers <= MOST_REGISTERS else 0,
        "shared memory": most_shared // shared if shared else limits.blocks,
    }
    limit = min(fitting, key=fitting.__getitem__)
    blocks = max(0, fitting[limit])
    return Occupancy(blocks=blocks, warps=blocks * warps, most_warps=limits.warps, limit=limit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
