"""A plugin that was built into an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hatch_tensoracle.testing.execution import RunningPlugin
from hatch_tensoracle.testing.fields import Field
from hatch_tensoracle.testing.signature import Signature

__all__ = ["BuiltPlugin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPlugin(Signature):
    """What an engine keeps of a plugin, and what building it has shown."""

    name: str
    tactics: tuple[int, ...]
    timing_cache_id: str | None
    metadata: str | None
    fields: tuple[Field, ...]
    """As serialised."""
    _deserialize: Callable[[Signature, tuple[Field, ...], int], RunningPlugin] = field(repr=False)

    def run_time(self, *, tactic: int | None = None) -> RunningPlugin:
        """Create it anew from the serialised fields and attach it to an execution context.

        `tactic` is the one that TensorRT's timing chose; left out, the first. Needs a current CUDA context. Raises
        PluginFailedError, and ValueError for a tactic that is no int32.
        """
        chosen = tactic if tactic is not None else next(iter(self.tactics), 0)  # 0 is the default, without tactics
        return self._deserialize(self, self.fields, chosen)
