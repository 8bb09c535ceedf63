"""What each plugin of contract.cpp breaks: the checks that find it, and what the first of them says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFECTS", "SLOW", "Defect"]

EXECUTING = (
    *("capture", "supported-types", "wrong-ranks", "execution", "shapes", "contexts", "empty", "tactics"),
    *("repetition", "threads", "failed-launch", "exit"),
)
"""The checks that cannot do without enqueue."""


@dataclass(frozen=True, slots=True)
class Defect:
    """What is found."""

    checks: tuple[str, ...]
    """All that fail."""
    cause: str
    """A pattern."""


DEFECTS = {
    "HasAnotherName": Defect(("identity",), "the plugin is 'Another' '1' of '', its creator 'HasAnotherName'"),
    "ListsTooFew": Defect(("fields-listed", "fields-round-trip"), "does not list field label, only scale"),
    "AcceptsUnknownFields": Defect(("unknown-field",), "an unknown field is accepted"),
    "NamesNoUnknownField": Defect(("unknown-field",), "refused without naming no_such_field: .*\n  a field is unknown"),
    "NamesNoMissingField": Defect(("missing-field",), "a missing scale is refused without naming scale"),
    "AcceptsFieldTypes": Defect(("wrong-field-type",), "scale = 'text' is accepted"),
    "DropsField": Defect(("fields-round-trip",), r"serialises \['scale'\], its creator lists \['scale', 'label'\]"),
    "ReordersFields": Defect(("fields-round-trip",), r"serialises \['label', 'scale'\], its creator lists"),
    "ForgetsValues": Defect(("fields-round-trip",), "serialises scale = 1.0, it is given 0.5"),
    "SharesState": Defect(("clones",), r"tactics of a second clone are \(1,\), those of the first were \(1, 2\)"),
    "SupportsHwc8": Defect(("formats",), "supports the format HWC8, which the case does not name"),
    "SupportsTooMuch": Defect(("formats",), "supports 144 combinations; TensorRT tries 100 at most"),
    "AcceptsTypes": Defect(("wrong-types",), "input 0 of i64 is supported in no format, and getOutputDataTypes"),
    "RefusesSilently": Defect(("wrong-types",), "input 0 of i64 is refused by getOutputDataTypes without a message"),
    "LoadsWhenEnqueued": Defect(("capture",), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    "HasNoKernel": Defect(("supported-types",), "inputs of fp16: accepted when the engine is built, and fails"),
    "RefusesRanksSilently": Defect(("wrong-ranks",), "input 0 of rank 1 is refused by getOutputShapes without"),
    "UsesAnotherStream": Defect(("execution",), "launches copy on stream 0x[0-9a-f]+, it is given 0x"),
    "LaunchesNothing": Defect(("execution",), "enqueue succeeds and launches nothing"),
    "AllocatesWhenEnqueued": Defect(("capture", "execution"), "cuMemAlloc_v2: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    "Synchronizes": Defect(("capture", "execution"), "cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE"),
    "RefusesGreatest": Defect(("shapes",), "onShapeChange returned 1\n  there is no kernel for that"),
    "SharesShapes": Defect(("contexts",), "launches .* after another execution context has worked, before that"),
    "FailsOnEmpty": Defect(("empty",), r"empty input of \(0, 64\): accepted when .*\n  there are no elements"),
    "LaunchesOnEmpty": Defect(("empty",), r"launches copy for inputs of \(0, 64\): no output has elements"),
    "CrashesOnEmpty": Defect(("empty",), "the process was killed by SIGSEGV"),
    "HangsOnEmpty": Defect(("empty",), "the process hung for 30 s"),
    "FailsOnTactic": Defect(("tactics",), "enqueue returned 1\n  tactic 2 cannot be executed"),
    "LeaksMemory": Defect(("repetition",), "keeps 12800 bytes of device memory after 50 times"),
    "SharesArguments": Defect(("threads",), "launches something else when several threads execute"),
    "IsBoundToThread": Defect(("threads",), "this thread has not attached it"),
    "IgnoresFailedLaunch": Defect(("failed-launch",), "a launch that fails is accepted"),
    "StaysSpoilt": Defect(("failed-launch",), "an earlier launch failed"),
    "IgnoresFailedAllocation": Defect(("failed-allocation",), "an allocation that fails is accepted"),
    "Crashes": Defect(EXECUTING, "the process was killed by SIGSEGV"),
    "CrashesAtExit": Defect(("exit",), "the process was killed by SIGABRT"),
}
"""By plugin."""
SLOW = "HangsOnEmpty"
