"""Lines of the launcher that these tests execute, by gcov: `python tests/launcher/coverage.py [limit in percent]`.

Prints a line for each file with what is left, and exits with 1 if the whole is below the limit, or a file is missing.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from helpers.tools import run, tool  # noqa: E402 - found by the line above


def measure(directory: Path) -> dict[str, dict[int, int]]:
    """Run the tests; how often each line of each file was executed."""
    environment = {**os.environ, "TENSORACLE_TEST_COVERAGE": str(directory)}
    subprocess.run([sys.executable, "-m", "pytest", "-q", str(HERE)], env=environment, check=True)
    counters = [
        path for path in directory.rglob("*.gcda") if "launcher_launcher.dir" in path.parts or "plugins" in path.stem
    ]
    run(tool("gcov"), "--json-format", *counters, cwd=directory)
    counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for report in directory.glob("*.gcov.json.gz"):
        for file in json.loads(gzip.decompress(report.read_bytes()))["files"]:
            for line in file["lines"]:
                counts[file["file"]][line["line_number"]] += line["count"]
    return {name: lines for name, lines in counts.items() if name.startswith("tensoracle/")}


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as directory:
        counts = measure(Path(directory))
    sources = {f"tensoracle/src/{path.name}" for path in (HERE.parents[1] / "cpp" / "src").glob("*.cpp")}
    if uncounted := sources - counts.keys():
        sys.exit(f"no line was counted of {', '.join(sorted(uncounted))}")
    executed = known = 0
    for name, lines in sorted(counts.items()):
        missed = sorted(number for number, count in lines.items() if count == 0)
        executed, known = executed + len(lines) - len(missed), known + len(lines)
        left = f"; not {', '.join(map(str, missed))}" if missed else ""
        sys.stdout.write(f"{100 - 100 * len(missed) / len(lines):6.1f} % of {len(lines):4} lines of {name}{left}\n")
    whole = 100 * executed / known
    sys.stdout.write(f"{whole:6.1f} % of {known} lines\n")
    return 0 if whole >= float(sys.argv[1] if sys.argv[1:] else 0) else 1


if __name__ == "__main__":
    sys.exit(main())
