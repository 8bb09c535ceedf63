"""Walks a plugin library through TensorRT's plugin contract and says where it breaks it."""

from hatch_tensoracle.conformance.case import Case, read_cases
from hatch_tensoracle.conformance.errors import ContractError
from hatch_tensoracle.conformance.walk import Outcome, walk

__all__ = ["Case", "ContractError", "Outcome", "read_cases", "walk"]
