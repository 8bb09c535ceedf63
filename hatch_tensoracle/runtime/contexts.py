"""Makes TensorRT's execution contexts, with the runtime settings of the time."""

from __future__ import annotations

from typing import Any

from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.settings_slot import AppliedSettings, SettingsSlot

__all__ = ["Contexts"]


class Contexts:
    """The contexts of one execution, one after the other."""

    def __init__(self, distribution: Distribution, slot: SettingsSlot) -> None:
        self._trt = distribution.module
        self._slot = slot
        self._is_rtx = distribution.name == "tensorrt_rtx"
        self._made_with: AppliedSettings | None = None
        self._cache: Any = None
        """The IRuntimeCache of the present one, which must live longer."""
        self.present: Any = None
        """An IExecutionContext; None until one is made."""

    @property
    def settings(self) -> AppliedSettings | None:
        """What the next one would be made with; None where TensorRT has no such settings."""
        return self._slot.applied if self._is_rtx else None

    @property
    def is_stale(self) -> bool:
        """Whether other settings hold now than when the present one was made."""
        return self._is_rtx and self._slot.applied is not self._made_with

    def release(self) -> None:
        """Let the present one go, and then its cache."""
        self.present = None
        self._cache = None

    def create(self, engine: Any, strategy: Any) -> Any:
        """Make one in place of the present one, with an ExecutionContextAllocationStrategy.

        Returns it, or None if TensorRT refuses.
        """
        self.release()
        if not self._is_rtx:
            self.present = engine.create_execution_context(strategy)
            return self.present
        self._made_with = applied = self._slot.applied
        config = engine.create_runtime_config()
        if config is None:
            return None
        config.set_execution_context_allocation_strategy(strategy)
        settings = applied.settings
        config.cuda_graph_strategy = self._member("CudaGraphStrategy", settings.cuda_graph_strategy)
        config.dynamic_shapes_kernel_specialization_strategy = self._member(
            "DynamicShapesKernelSpecializationStrategy", settings.dynamic_shapes_kernel_specialization_strategy
        )
        cache = None if applied.cache is None else applied.cache.materialized(config)
        if cache is not None and not config.set_runtime_cache(cache):
            return None
        self._cache = cache
        self.present = engine.create_execution_context(config)
        return self.present

    def _member(self, enumeration: str, name: str) -> Any:
        return getattr(getattr(self._trt, enumeration), name.upper())
