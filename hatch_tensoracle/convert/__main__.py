"""The command line of the converter."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from hatch_tensoracle.convert import CheckpointError, pth_to_safetensors

__all__ = ["main"]

_FAILED = 1
_USAGE = 2
_INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert a checkpoint. Returns 0, 1 if it cannot be converted, 2 for paths and packages that are not there."""
    parser = argparse.ArgumentParser(
        prog="python -m hatch_tensoracle.convert",
        description="Write the tensors of a PyTorch checkpoint to a safetensors file, types and values unchanged. "
        "Names of inner mappings are joined with '.'; objects in the checkpoint are never run.",
    )
    parser.add_argument("source", metavar="CHECKPOINT", help="what torch.save has written, such as model.pth")
    parser.add_argument("destination", metavar="SAFETENSORS", help="is replaced once all is written")
    options = parser.parse_args(arguments)
    try:
        with _progress() as progress:
            pth_to_safetensors(options.source, options.destination, progress=progress)
    except CheckpointError as error:
        print("\n".join(filter(None, (f"{parser.prog}: {error}", error.remedy))), file=sys.stderr)
        return _FAILED
    except (ImportError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show how much is written, if there is a terminal to show it on."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("")
        yield lambda done, total: display.update(task, completed=done, total=total)


if __name__ == "__main__":
    sys.exit(main())
