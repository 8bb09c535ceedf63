"""What compute-sanitizer watches: every kernel on few elements. `python -m gpu.sanitized LIBRARY [DEFECT]`.

A defect, `short` or `unwritten`, is one that memcheck or initcheck must report: an output that is shorter than its
shape, or an input that nobody wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpu.work import KINDS, Execution, session
from hatch_tensoracle.testing import DevicePointer
from hatch_tensoracle.testing.tensors import byte_size


def main(library: str, defect: str = "") -> None:
    """Execute, check, and free everything."""
    with session(Path(library)) as at:
        stream = at.context.create_stream()
        if defect:
            execution = Execution(at, "norm fp32", (3, 1025))
            at.cuda.synchronize(0)
            place, pointers = {
                "short": (0, execution.outputs),
                "unwritten": (0, execution.inputs),
            }[defect]
            old = pointers[place]
            size = byte_size(old.type, old.shape) - (512 if defect == "short" else 0)
            pointers[place] = DevicePointer(at.cuda.allocate(size), old.shape, old.type)
            execution.enqueue(stream)
            stream.synchronize()
            return
        executions = []
        for kind in KINDS:
            is_norm = kind.startswith("norm")
            shapes = [(3, 4112), (3, 4097)] if is_norm else [(17, 48, 80), (17, 33, 70)]
            for tactic in range(1, (3 if is_norm else 7) + 1):
                executions += [Execution(at, kind, shape, tactic=tactic) for shape in shapes]
        for execution in executions:
            execution.enqueue(stream)
        stream.synchronize()
        for execution in executions:
            execution.check()
            execution.running.close()
            execution.free()
        stream.destroy()
    at.context.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
