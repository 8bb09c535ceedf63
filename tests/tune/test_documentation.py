"""docs/tuning.md shows a case that can be read, and says the numbers that hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hatch_tensoracle._decode import decode
from hatch_tensoracle.tune import meter, read_cases, runs
from hatch_tensoracle.tuning import TunedRange

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
TEXT = " ".join(DOCUMENT.split())


def test_the_documented_case_can_be_read(tmp_path: Path) -> None:
    (shown,) = (block for block in re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL) if "[[cases]]" in block)
    (tmp_path / "tune.toml").write_text(shown, encoding="utf-8")
    assert [case.kernel for case in read_cases(tmp_path / "tune.toml")] == ["matmul_bias_gelu_fp16"]


def test_the_documented_range_can_be_read() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert decode(TunedRange, json.loads(shown)).configuration["BM"] == 16


def test_the_documented_numbers_are_those_of_the_code() -> None:
    for said in (
        f"no further apart than a ratio of {runs.COARSE}, and than {runs.FINE} where another",
        f"A configuration within {round(100 * (runs.NOISE - 1))}% of the fastest",
        f"a CUDA graph of up to {meter.EXECUTIONS} executions, for at least {meter.STRETCH:.0f} µs",
        f"for {meter.BUDGET / 1000:.0f} ms each but at least {meter.ROUNDS[0]} and at most {meter.ROUNDS[1]} times",
    ):
        assert said in TEXT
