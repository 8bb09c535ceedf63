"""A record holds all that a kernel is compiled from, and nothing of the place that the kernel was written in."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.producing import compile_here, kernel_module, record_of

from hatch_tensoracle import inspect_bundle
from tensoracle_producer import CaptureError, KernelSpec, Pointer, Scalar
from tensoracle_producer.rebuild import rebuild
from tensoracle_producer.record import Reference
from tensoracle_producer.variant import make_variants

SOURCE = '''
SCALE = tl.constexpr(2.0)


@triton.jit
def helper(x, shift: tl.constexpr = 1):
    return x * SCALE + shift


@triton.jit
def kernel(x, size, BLOCK: tl.constexpr):
    """Scale."""
    i = tl.arange(0, BLOCK)
    tl.store(x + i, helper(tl.load(x + i, mask=i < size)), mask=i < size)
'''


def spec_of(directory: Path, source: str = SOURCE, **fields: Any) -> KernelSpec:
    given: dict[str, Any] = {
        "name": "kernel",
        "arguments": [Pointer("fp32"), Scalar("i32")],
        "constants": {"BLOCK": 64},
        **fields,
    }
    return KernelSpec(kernel_module(directory, source).kernel, **given)


def digest(spec: KernelSpec) -> str:
    (variant,) = make_variants([spec])
    return variant.entry("kernel", ()).source_sha256


def kernel_of(directory: Path, source: str, **constants: Any) -> KernelSpec:
    """Make a spec for a kernel that takes one pointer and constants."""
    return KernelSpec(
        kernel_module(directory, source).kernel, name="kernel", arguments=[Pointer("fp32")], constants=constants
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("\nSCALE", "\n\n# A comment.\n\n\nSCALE", id="lines and a comment before it"),
        pytest.param("    i = tl", "    # The columns.\n    i = tl", id="a comment inside"),
        pytest.param("BLOCK)\n", "BLOCK)  # columns\n", id="a comment behind code"),
        pytest.param('    """Scale."""\n', "", id="no docstring"),
        pytest.param('"""Scale."""', '"""Scale and shift.\n\n    Twice.\n    """', id="another docstring"),
        pytest.param("mask=i < size)), ", "mask = (i<size))),\n        ", id="other spacing"),
        pytest.param("@triton.jit\ndef kernel", "@triton.jit()\ndef kernel", id="the decorator called"),
        pytest.param(
            "@triton.jit\ndef kernel",
            '@triton.jit(do_not_specialize=["size"])\ndef kernel',
            id="a decorator's option for launches",
        ),
        pytest.param("BLOCK: tl.constexpr):", "BLOCK: tl.constexpr) -> None:", id="a return annotation"),
        pytest.param("\nSCALE", "\nUNUSED = tl.constexpr(1)\nSCALE", id="a global of something else"),
        pytest.param(
            "\nSCALE",
            "\n@triton.jit\ndef unused(x):\n    return x\n\n\nSCALE",
            id="a function of something else",
        ),
    ],
)
def test_digest_stays_with(tmp_path: Path, before: str, after: str) -> None:
    assert SOURCE.count(before) == 1
    changed = spec_of(tmp_path / "other place", SOURCE.replace(before, after))
    assert digest(changed) == digest(spec_of(tmp_path / "place"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("return x * SCALE", "return x / SCALE", id="the helper's code"),
        pytest.param("constexpr(2.0)", "constexpr(3.0)", id="a captured number"),
        pytest.param("constexpr(2.0)", "constexpr(2)", id="the kind of a captured number"),
        pytest.param("shift: tl.constexpr = 1", "shift: tl.constexpr = 2", id="the helper's default"),
        pytest.param("shift: tl.constexpr = 1", "shift=1", id="the helper's annotation"),
        pytest.param("@triton.jit\ndef helper", "@triton.jit(noinline=True)\ndef helper", id="the helper's noinline"),
        pytest.param("i = tl.arange(0, BLOCK)", "i = tl.arange(0, 64)", id="the kernel's code"),
        pytest.param("* SCALE", "* 2.0", id="a constant in place of a captured one"),
    ],
)
def test_digest_changes_with(tmp_path: Path, before: str, after: str) -> None:
    assert SOURCE.count(before) == 1
    changed = spec_of(tmp_path / "other", SOURCE.replace(before, after))
    assert digest(changed) != digest(spec_of(tmp_path / "one"))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"arguments": [Pointer("fp16"), Scalar("i32")]}, id="an element type"),
        pytest.param({"arguments": [Pointer("fp32"), Scalar("i64")]}, id="a scalar type"),
        pytest.param({"arguments": [Pointer("fp32", divisible_by=16), Scalar("i32")]}, id="a divisor"),
        pytest.param({"arguments": [Pointer("fp32"), Scalar("i32", equal_to=1)]}, id="a value"),
        pytest.param({"constants": {"BLOCK": 128}}, id="a constant"),
        pytest.param({"constants": {"BLOCK": 64.0}}, id="the kind of a constant"),
        pytest.param({"num_warps": 8}, id="num_warps"),
        pytest.param({"num_stages": 2}, id="num_stages"),
        pytest.param({"maxnreg": 64}, id="maxnreg"),
        pytest.param({"enable_fp_fusion": False}, id="enable_fp_fusion"),
        pytest.param({"default_dot_input_precision": "ieee"}, id="default_dot_input_precision"),
    ],
)
def test_digest_changes_with_the_declared(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert digest(spec_of(tmp_path, **fields)) != digest(spec_of(tmp_path))


def test_constants_that_are_equal_in_python_alone_are_told_apart(tmp_path: Path) -> None:
    digests = {digest(spec_of(tmp_path, constants={"BLOCK": value})) for value in (1, True, 1.0, 0.0, -0.0, "1")}
    assert len(digests) == 6


def test_digest_changes_with_what_a_helper_in_another_module_captures(tmp_path: Path) -> None:
    digests = set()
    for factor in (2, 3):
        helpers = kernel_module(
            tmp_path / str(factor),
            f"FACTOR = tl.constexpr({factor})\n\n@triton.jit\ndef scale(x):\n    return x * FACTOR\n",
            name="scaling",
        )
        module = kernel_module(tmp_path, "@triton.jit\ndef kernel(x):\n    tl.store(x, scaling.scale(tl.load(x)))\n")
        module.scaling = helpers  # type: ignore[attr-defined]
        digests.add(digest(KernelSpec(module.kernel, name="kernel", arguments=[Pointer("fp32")])))
    assert len(digests) == 2


def test_record_survives_pickling_and_compiles_to_the_same_code(tmp_path: Path) -> None:
    record = record_of(spec_of(tmp_path))
    copy = pickle.loads(pickle.dumps(record))  # noqa: S301 - our own
    assert copy == record
    assert copy.digest() == record.digest()
    kernel, constants = rebuild(copy)
    assert constants == {"BLOCK": 64}
    assert [param.name for param in kernel.params] == ["x", "size", "BLOCK"]


def test_record_holds_no_path_and_no_line_of_the_authors_file(tmp_path: Path) -> None:
    record = record_of(spec_of(tmp_path / "somewhere"))
    assert str(tmp_path) not in repr(record)
    assert "somewhere" not in repr(record)
    assert b"somewhere" not in pickle.dumps(record)


WRITTEN_OUT = """
@triton.jit
def kernel(x):
    tl.store(x, (tl.load(x) * 2.0 + 5.0) * 3.0)
"""


@pytest.mark.parametrize(
    ("source", "constants"),
    [
        pytest.param(
            """
            def scaling(by):
                factor = tl.constexpr(by)

                @triton.jit
                def scale(x):
                    return x * factor

                return scale

            twice, thrice = scaling(2.0), scaling(3.0)

            @triton.jit
            def kernel(x):
                tl.store(x, thrice(twice(tl.load(x)) + 5.0))
            """,
            {},
            id="closures of one factory",
        ),
        pytest.param(
            """
            def scaling(by):
                factor = tl.constexpr(by)

                @triton.jit
                def scale(x):
                    return x * factor

                return scale

            @triton.jit
            def kernel(x, FIRST: tl.constexpr, SECOND: tl.constexpr):
                tl.store(x, SECOND(FIRST(tl.load(x)) + 5.0))

            FIRST, SECOND = scaling(2.0), scaling(3.0)
            """,
            {"FIRST", "SECOND"},
            id="closures of one factory as constants",
        ),
        pytest.param(
            """
            def scaling(by):
                @triton.jit
                def scale(x, factor: tl.constexpr = by):
                    return x * factor

                return scale

            twice, thrice = scaling(2.0), scaling(3.0)

            @triton.jit
            def kernel(x):
                tl.store(x, thrice(twice(tl.load(x)) + 5.0))
            """,
            {},
            id="defaults of one factory",
        ),
        pytest.param(
            """
            functions = []
            for factor in (2.0, 3.0):

                @triton.jit
                def scale(x, by: tl.constexpr = factor):
                    return x * by

                functions.append(scale)

            twice, thrice = functions

            @triton.jit
            def kernel(x):
                tl.store(x, thrice(twice(tl.load(x)) + 5.0))
            """,
            {},
            id="defaults that a loop has changed since",
        ),
        pytest.param(
            """
            import os

            os.environ["FACTOR_OF_TEST"] = "3.0"

            @triton.jit
            def scale(x, by: tl.constexpr = float(os.environ.pop("FACTOR_OF_TEST"))):
                return x * by

            @triton.jit
            def kernel(x):
                tl.store(x, scale(tl.load(x) * 2.0 + 5.0))
            """,
            {},
            id="a default that cannot be evaluated again",
        ),
        pytest.param(
            """
            @triton.jit
            def scale(x):
                return x * 2.0

            twice = scale

            @triton.jit
            def scale(x):
                return x * 3.0

            @triton.jit
            def kernel(x):
                tl.store(x, scale(twice(tl.load(x)) + 5.0))
            """,
            {},
            id="a name that was used again",
        ),
        pytest.param(
            """
            @triton.jit
            def power(x, N: tl.constexpr):
                if N == 0:
                    return x
                else:
                    return power(x, N - 1) * 2.0

            @triton.jit
            def kernel(x):
                tl.store(x, (power(tl.load(x), 1) + 5.0) * 3.0)
            """,
            {},
            id="recursion",
        ),
        pytest.param(
            """
            @triton.jit
            def even(x, N: tl.constexpr):
                if N == 0:
                    return x
                else:
                    return odd(x * 3.0, N - 1)

            @triton.jit
            def odd(x, N: tl.constexpr):
                if N == 0:
                    return x
                else:
                    return even(x * 2.0 + 5.0, N - 1)

            @triton.jit
            def kernel(x):
                tl.store(x, odd(tl.load(x), 2))
            """,
            {},
            id="helpers that call each other",
        ),
        pytest.param(
            """
            @triton.constexpr_function
            def product(a, b):
                return float(a * b)

            @triton.jit
            def kernel(x, N: tl.constexpr):
                tl.store(x, (tl.load(x) * product(N, 1) + 5.0) * product(1.5, N))

            N = 2
            """,
            {"N"},
            id="a constexpr_function",
        ),
        pytest.param(
            """
            @triton.jit
            def scale(x, by: tl.constexpr):
                return x * by

            @triton.jit
            def kernel(x, FUNCTION: tl.constexpr):
                tl.store(x, FUNCTION(FUNCTION(tl.load(x), 2.0) + 5.0, 3.0))

            FUNCTION = scale
            """,
            {"FUNCTION"},
            id="a function as a constant",
        ),
        pytest.param(
            """
            import enum

            class Factor(enum.Enum):
                TWICE = 2.0
                THRICE = 3.0

            @triton.jit
            def kernel(x, SECOND: tl.constexpr):
                first = tl.load(x) * Factor.TWICE.value + 5.0
                if SECOND == Factor.THRICE:
                    tl.store(x, first * 3.0)
                else:
                    tl.store(x, first)

            SECOND = Factor.THRICE
            """,
            {"SECOND"},
            id="an enumeration and its values",
        ),
        pytest.param(
            """
            import enum

            class Factor(enum.IntEnum):
                TWICE = 2
                THRICE = 3

            @triton.jit
            def kernel(x, FACTOR: tl.constexpr):
                if FACTOR == Factor.THRICE:
                    tl.store(x, (tl.load(x) * 2.0 + 5.0) * 3.0)

            FACTOR = Factor.THRICE
            """,
            {"FACTOR"},
            id="an integer enumeration",
        ),
        pytest.param(
            """
            import types

            more = types.SimpleNamespace(second=tl.constexpr(3.0))
            factors = types.SimpleNamespace(first=tl.constexpr(2.0), more=more)

            @triton.jit
            def kernel(x):
                tl.store(x, (tl.load(x) * factors.first + 5.0) * factors.more.second)
            """,
            {},
            id="attributes of attributes",
        ),
        pytest.param(
            """
            import math

            BYTES = tl.constexpr(b"..")
            PAIR = tl.constexpr((2.0, tl.constexpr(3.0)))
            TYPE = tl.float32
            sqrt = math.sqrt

            @triton.jit
            def kernel(x):
                value = tl.load(x).to(TYPE) * PAIR[0] + 5.0
                tl.store(x, value * PAIR[1])
            """,
            {},
            id="globals of other kinds",
        ),
        pytest.param(
            """
            class Kernels:
                @triton.jit
                def scale(x, by: tl.constexpr):
                    return x * by

                @triton.jit
                def kernel(x):
                    tl.store(x, Kernels.scale(Kernels.scale(tl.load(x), 2.0) + 5.0, 3.0))

            kernel = Kernels.kernel
            """,
            {},
            id="functions in a class",
        ),
        pytest.param(
            """
            def make():
                inner = tl.constexpr(3.0)

                @triton.jit
                def kernel(x):
                    tl.store(x, (tl.load(x) * 2.0 + 5.0) * inner)

                return kernel

            kernel = make()
            """,
            {},
            id="a kernel from a factory",
        ),
    ],
)
def test_rebuilt_kernel_is_the_one_that_was_written(tmp_path: Path, source: str, constants: set[str]) -> None:
    """Every way of writing it gives the very bytes of the kernel written out in full."""
    module = kernel_module(tmp_path / "written", source)
    spec = KernelSpec(
        module.kernel,
        name="kernel",
        arguments=[Pointer("fp32")],
        constants={name: getattr(module, name) for name in constants},
    )
    assert compile_here(spec).cubin == compile_here(kernel_of(tmp_path / "out", WRITTEN_OUT)).cubin


def test_helpers_of_another_module_are_found_by_attribute_and_by_name(tmp_path: Path) -> None:
    scaling = kernel_module(
        tmp_path / "scaling",
        """
        THREE = tl.constexpr(3.0)

        @triton.jit
        def scale(x, by: tl.constexpr):
            return x * by
        """,
        name="scaling",
    )
    module = kernel_module(
        tmp_path,
        """
        @triton.jit
        def kernel(x):
            tl.store(x, scaling.scale(scale(tl.load(x), 2.0) + 5.0, scaling.THREE))
        """,
    )
    vars(module).update(scaling=scaling, scale=scaling.scale)
    spec = KernelSpec(module.kernel, name="kernel", arguments=[Pointer("fp32")])
    assert [key for key, _ in record_of(spec).functions] == ["kernels:kernel", "scaling:scale"]
    assert compile_here(spec).cubin == compile_here(kernel_of(tmp_path / "out", WRITTEN_OUT)).cubin


@pytest.mark.parametrize("loaded", [True, False], ids=["while it is loaded", "afterwards"])
def test_a_module_of_the_authors_may_be_called_like_one_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, loaded: bool
) -> None:
    """Workers have only the one of the standard library."""
    statistics = kernel_module(
        tmp_path / "beside", "@triton.jit\ndef mean(x):\n    return x * 2.0 + 5.0\n", name="statistics"
    )
    if loaded:
        monkeypatch.setitem(sys.modules, "statistics", statistics)
    module = kernel_module(
        tmp_path, "@triton.jit\ndef kernel(x):\n    tl.store(x, statistics.mean(tl.load(x)) * 3.0)\n"
    )
    vars(module).update(statistics=statistics)
    spec = KernelSpec(module.kernel, name="kernel", arguments=[Pointer("fp32")])
    assert [key for key, _ in record_of(spec).functions] == ["kernels:kernel", "statistics:mean"]
    assert compile_here(spec).cubin == compile_here(kernel_of(tmp_path / "out", WRITTEN_OUT)).cubin


def test_a_noinline_helper_stays_a_function_of_its_own(tmp_path: Path) -> None:
    inlined = """
        @triton.jit
        def scale(x):
            return x * 2.0

        @triton.jit
        def kernel(x):
            tl.store(x, scale(tl.load(x)))
        """
    apart = inlined.replace("@triton.jit\n        def scale", "@triton.jit(noinline=True)\n        def scale")
    cubins = [compile_here(kernel_of(tmp_path / str(i), source)).cubin for i, source in enumerate((inlined, apart))]
    assert [b"scale" in cubin for cubin in cubins] == [False, True]


def test_functions_of_triton_are_referred_to_rather_than_copied(tmp_path: Path) -> None:
    record = record_of(
        kernel_of(
            tmp_path,
            """
            from triton.language.extra import libdevice

            @triton.jit
            def kernel(x):
                i = tl.arange(0, 16)
                value = tl.softmax(tl.load(x + i))
                tl.store(x, libdevice.erf(tl.sum(value)) + tl.max(value))
            """,
        )
    )
    assert [key for key, _ in record.functions] == ["kernels:kernel"]


def test_a_kernel_that_calls_itself_is_recorded_once(tmp_path: Path) -> None:
    record = record_of(
        kernel_of(
            tmp_path,
            """
            @triton.jit
            def power(x, N: tl.constexpr):
                if N == 0:
                    return x
                else:
                    return power(x, N - 1) * 2.0

            @triton.jit
            def kernel(x):
                tl.store(x, power(power(tl.load(x), 1), 2))
            """,
        )
    )
    functions = dict(record.functions)
    assert list(functions) == ["kernels:kernel", "kernels:power"]
    assert ("power", Reference("kernels:power")) in functions["kernels:power"].names


@pytest.mark.parametrize(
    ("source", "constants", "words"),
    [
        pytest.param(
            """
            def double(x):
                return x * 2

            @triton.jit
            def kernel(x):
                tl.store(x, double(tl.load(x)))
            """,
            {},
            ("kernels.py", "`kernel`", "`double`", "Python function double"),
            id="a plain function",
        ),
        pytest.param(
            """
            table = {1: 2.0}

            @triton.jit
            def scale(x):
                return x * table[1]

            @triton.jit
            def kernel(x):
                tl.store(x, scale(tl.load(x)))
            """,
            {},
            ("kernels.py", "`scale`", "`table`", "builtins.dict"),
            id="a dictionary, in a helper",
        ),
        pytest.param(
            """
            class Settings:
                pass

            settings = Settings()

            @triton.jit
            def kernel(x):
                tl.store(x, tl.load(x) * tl.constexpr(settings))
            """,
            {},
            ("kernels.py", "`kernel`", "`settings`", "Settings"),
            id="an object",
        ),
        pytest.param(
            """
            import types

            settings = types.SimpleNamespace(inner=types.SimpleNamespace(table={1: 2.0}))

            @triton.jit
            def kernel(x):
                tl.store(x, tl.load(x) * settings.inner.table[1])
            """,
            {},
            ("kernels.py", "`kernel`", "`settings`", "`inner`", "`table`", "builtins.dict"),
            id="an attribute of an attribute",
        ),
        pytest.param(
            """
            import numpy

            FACTOR = tl.constexpr(numpy.float32(2.0))

            @triton.jit
            def kernel(x):
                tl.store(x, tl.load(x) * FACTOR)
            """,
            {},
            ("kernels.py", "`kernel`", "`FACTOR`", "numpy.float32"),
            id="a NumPy number",
        ),
        pytest.param(
            """
            @triton.jit
            def kernel(x, TABLE: tl.constexpr):
                tl.store(x, TABLE)
            """,
            {"TABLE": {1: 2.0}},
            ("kernels.py", "`kernel`", "constant `TABLE`", "builtins.dict"),
            id="a constant",
        ),
        pytest.param(
            """
            @triton.jit
            def scale(x, by: tl.constexpr = object()):
                return x

            @triton.jit
            def kernel(x):
                tl.store(x, scale(tl.load(x)))
            """,
            {},
            ("kernels.py", "`scale`", "`by`", "builtins.object"),
            id="a default",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    tmp_path: Path, source: str, constants: dict[str, Any], words: tuple[str, ...]
) -> None:
    """The message names file, function and object."""
    with pytest.raises(CaptureError) as caught:
        record_of(kernel_of(tmp_path, source, **constants))
    assert [word for word in words if word not in str(caught.value)] == []
    assert caught.value.remedy


@pytest.mark.parametrize(
    "value",
    [
        pytest.param((1, b"2"), id="bytes in a tuple"),
        pytest.param([1, 2], id="list"),
        pytest.param(2**63, id="more than 64 bits"),
        pytest.param("a\0b", id="text with a NUL"),
        pytest.param(b"bytes", id="bytes"),
    ],
)
def test_a_constant_that_cpp_cannot_read_is_refused_before_anything_is_compiled(tmp_path: Path, value: object) -> None:
    source = "@triton.jit\ndef kernel(x, C: tl.constexpr):\n    tl.store(x, 1.0)\n"
    with pytest.raises(ValueError, match=r"kernel `kernel#0`: constant `C`"):
        make_variants([kernel_of(tmp_path, source, C=value)])


@pytest.mark.parametrize(
    "expression",
    [
        """f"{BLOCK!r:>{BLOCK}} {'x' 'y'} {BLOCK:}" """,
        "'one' 'two' f'{BLOCK}' 'three'",
        "-1e400 - -1",
        "not (BLOCK if BLOCK else 0) == -(-1)",
        '"\\N{BULLET} \\x00 \\\\ \'\\"" r"\\d" + b"x"[0:1].decode()',
        "(BLOCK, *(1, 2), *[3, (4,)])[::-1]",
        "BLOCK < 2 < 3 and BLOCK or (yes := 5)",
        "lambda a, /, b=1, *c, d, **e: (a @ b, ~a ** -b)",
        "{**{}, 'a': [i for i in BLOCK if i for j in i], 'b': {i for i in ()}}",
    ],
)
def test_lines_are_known_whatever_the_expression(tmp_path: Path, expression: str) -> None:
    """The source is parsed, written out and parsed again: both trees must have the same statements."""
    source = f"""
        @triton.jit
        def kernel(x, BLOCK: tl.constexpr):
            # A line that goes away.
            value = ({expression}
            )
            tl.store(x, 1.0)
        """
    record = record_of(kernel_of(tmp_path, source, BLOCK=1))
    (_, function) = record.functions[0]
    last = function.source.count("\n") + 1
    assert record.locate(function.source, last) == "kernels.py:11"


SCRIPT = """
import sys

import triton
import triton.language as tl

from tensoracle_producer import KernelSpec, Pointer, compile_bundle

SCALE = tl.constexpr(2.0)


@triton.jit
def kernel(x):
    tl.store(x, tl.load(x) * SCALE)


if __name__ == "__main__":
    compile_bundle([KernelSpec(kernel, name="kernel", arguments=[Pointer("fp32")])], ["sm86"], sys.argv[1])
"""


def test_a_kernel_of_a_script_compiles(tmp_path: Path) -> None:
    """Its module is `__main__`, which is another one in every worker."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, script, tmp_path / "bundle"], check=True)
    assert [entry.symbol for entry in inspect_bundle(tmp_path / "bundle").entries] == ["kernel"]
