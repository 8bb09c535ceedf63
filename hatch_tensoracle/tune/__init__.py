"""Measures on a GPU which configuration of a kernel is the fastest, by shape."""

from hatch_tensoracle.tune.artifact import opened
from hatch_tensoracle.tune.case import Case, read_cases
from hatch_tensoracle.tune.errors import TuningError
from hatch_tensoracle.tune.tuner import tune

__all__ = ["Case", "TuningError", "opened", "read_cases", "tune"]
