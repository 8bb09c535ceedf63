"""Which variant runs, on which grid and stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testing.child import in_child

from hatch_tensoracle.testing import PluginFailedError
from hatch_tensoracle.testing.records import Call
from launcher.launching import argument, session

ALIGNED, ODD = "pointer:7f0123456780", "pointer:7f0123456788"
SIXTEEN, SEVENTEEN = argument("i32", 16), argument("i32", 17)
ONE, TWO = argument("i64", 1), argument("i64", 2)

# Arguments of the kernel `guarded`, and the first variant that they may run.
VARIANTS = [
    ([ALIGNED, ALIGNED, SIXTEEN, ONE], 0),
    (["null", "null", SIXTEEN, ONE], 0),
    ([ALIGNED, ALIGNED, argument("i64", -32), ONE], 0),
    ([ALIGNED, ALIGNED, argument("u64", 0), argument("u8", 1)], 0),
    ([ALIGNED, ALIGNED, SIXTEEN, TWO], 1),
    ([ALIGNED, ALIGNED, SIXTEEN, argument("i64", -1)], 1),
    ([ALIGNED, ALIGNED, SIXTEEN, argument("i64", 2**32 + 1)], 1),
    ([ODD, ALIGNED, SIXTEEN, ONE], 2),
    ([ALIGNED, "pointer:7f0123456781", SIXTEEN, ONE], 2),
    ([ALIGNED, ALIGNED, SEVENTEEN, ONE], 2),
    ([ALIGNED, ALIGNED, argument("i32", -1), TWO], 2),
    ([ALIGNED, ALIGNED, argument("i32", 8), TWO], 2),
]


@in_child
def test_first_variant_that_accepts_the_arguments_runs(library: Path) -> None:
    with session(library) as at:
        digests: dict[int, str] = {}
        for given, variant in VARIANTS:
            at.driver.clear()
            at.launch("guarded", given)
            assert at.told("variant ")[-1] == str(variant), given
            (launch,) = at.driver.launches
            assert digests.setdefault(variant, launch.sha256) == launch.sha256
            # A value that the code was compiled for is no parameter of it.
            assert [len(each) for each in launch.arguments] == [8, 8, 4, *([8] if variant else []), 8, 8]
            assert launch.arguments[-2:] == (bytes(8), bytes(8))
        assert digests[0] not in {digests[1], digests[2]}


@in_child
def test_selecting_and_launching_together_is_the_same(library: Path) -> None:
    with session(library) as at:
        for given, _ in VARIANTS:
            at.driver.clear()
            at.launch("guarded", given)
            at.launch("guarded", given, how="together")
            apart, together = at.driver.launches
            assert apart == together
        for given in ([ODD, ALIGNED, SIXTEEN, ONE], [ALIGNED], [ALIGNED, ALIGNED, SIXTEEN, argument("fp32", 1)]):
            messages = {at.refusal("only_aligned", given, how=how) for how in ("select", "together")}
            assert len(messages) == 1
        for grid in ([0, 1, 1], [1, 0, 1]):
            at.driver.clear()
            at.launch("guarded", VARIANTS[0][0], grid=grid, how="together")
            assert at.driver.launches == ()
        assert at.refusal("guarded", VARIANTS[0][0], grid=[1, 65536, 1], how="together").endswith("from 0 to 65535")


@in_child
def test_no_matching_variant_is_an_error_with_kernel_argument_and_value(library: Path) -> None:
    with session(library) as at:
        for given, reason in [
            ([ODD, ALIGNED, SIXTEEN, ONE], "source (*fp32) is 0x7f0123456788, which is not divisible by 16"),
            ([ALIGNED, ALIGNED, SEVENTEEN, ONE], "size (i32) is 17, which is not divisible by 16"),
            ([ALIGNED, ALIGNED, argument("i32", -8), ONE], "size (i32) is -8, which is not divisible by 16"),
            ([ALIGNED, ALIGNED, SIXTEEN, TWO], "stride (i64) is 2; the code was compiled for 1"),
            (
                [ALIGNED, ALIGNED, argument("i64", 2**31), ONE],
                "size (i32) is 2147483648, which i32 cannot hold exactly",
            ),
        ]:
            assert at.refusal("only_aligned", given) == (
                f"Launch: enqueue: kernel only_aligned: no variant accepts the arguments; variant 0: argument {reason}"
            )
            assert at.refusal("only_aligned", given, how="first") == (
                f"Launch: enqueue: kernel only_aligned#0, sm_86: argument {reason}"
            )
        message = at.refusal("guarded", [ALIGNED, ALIGNED, argument("i64", 2**31), ONE])
        assert message.count("argument size (i32) is 2147483648, which i32 cannot hold exactly") == 3


@in_child
def test_grid_dimensions_have_their_limits(library: Path) -> None:
    given = [ALIGNED, ALIGNED, SIXTEEN, ONE]
    with session(library) as at:
        for axis, most in enumerate([2**31 - 1, 65535, 65535]):
            for blocks in (-1, most + 1, 2**32, 2**32 + 1, -(2**63), 2**63 - 1):
                grid = [1, 1, 1]
                grid[axis] = blocks
                assert at.refusal("guarded", given, grid=grid) == (
                    f"Launch: enqueue: kernel guarded#0, sm_86: grid dimension {'xyz'[axis]} is {blocks}; "
                    f"it must be from 0 to {most}"
                )
        for grid in ([2**31 - 1, 1, 1], [1, 65535, 65535], [65537, 65535, 1], [2**31 - 1, 65535, 65535]):
            at.driver.clear()
            at.launch("guarded", given, grid=grid)
            (launch,) = at.driver.launches
            assert launch.grid == tuple(grid)


@in_child
def test_empty_grid_is_done_without_a_launch_and_null_pointers_are_left_alone(library: Path) -> None:
    with session(library) as at:
        running = at.make(kernel="guarded", arguments=f"in out {argument('i32', 0)} {ONE}", grid=[0, 1, 1])
        at.enqueue(running, elements=0)  # the harness hands over null pointers, as TensorRT does
        at.driver.clear()
        at.enqueue(running, elements=0)
        for grid in ([0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 65535, 0]):
            at.launch("guarded", ["null", "null", argument("i32", 0), ONE], grid=grid)
        assert at.driver.launches == ()
        # What is wrong with the arguments is still said.
        message = at.refusal("guarded", ["null", "null", argument("fp32", 0), ONE], grid=[0, 1, 1])
        assert message.endswith("argument size (i32) is a float, 0")


@in_child
def test_only_the_given_stream_is_used(library: Path) -> None:
    with session(library) as at:
        context = at.driver.current_context()
        assert context is not None
        streams = [context.create_stream(), context.create_stream(blocking=True)]
        running = at.make(kernel="guarded", arguments=f"in out {SIXTEEN} {ONE}")
        at.enqueue(running, stream=streams[0])
        at.driver.clear()
        for stream in (*streams, None, *streams):
            at.enqueue(running, stream=stream)
        assert [call.name for call in at.driver.records(Call)] == ["cuLaunchKernel"] * 5
        expected = [streams[0].handle, streams[1].handle, 0, streams[0].handle, streams[1].handle]
        assert [launch.stream for launch in at.driver.launches] == expected


@in_child
def test_threads_and_dynamic_shared_memory_are_the_codes(library: Path) -> None:
    with session(library) as at:
        for configuration, threads in enumerate([32, 64, 128]):
            at.launch("tiled", [ALIGNED, ALIGNED, SIXTEEN, TWO], configuration=configuration)
            assert at.driver.launches[-1].block == (threads, 1, 1)
            assert at.driver.launches[-1].shared == 0
        at.launch("shared", [ALIGNED, ALIGNED, ALIGNED])
        assert at.driver.launches[-1].block == (256, 1, 1)
        assert at.driver.launches[-1].shared == 65536
        assert at.told("prepared ")[-1] == "shared/0#0, sm_86, 256 threads"


@in_child
def test_unknown_kernel_and_configuration_are_answered_with_those_there_are(library: Path) -> None:
    with session(library) as at:
        cases: list[tuple[dict[str, Any], str]] = [
            (
                {"kernel": "missing"},
                "the bundle has no kernel missing; it has every_type, guarded, only_aligned, tiled, shared",
            ),
            ({"kernel": "tiled", "configuration": 3}, "kernel tiled: configuration 3 is asked for; it has 3"),
            ({"kernel": "tiled", "configuration": -1}, "kernel tiled: configuration -1 is asked for; it has 3"),
        ]
        for fields, message in cases:
            running = at.make(arguments="", **fields)
            with pytest.raises(PluginFailedError) as caught:
                at.enqueue(running)
            assert caught.value.messages == (f"Launch: onShapeChange: {message}",)


@in_child
def test_constants_are_read_in_their_type(library: Path) -> None:
    def read(name: str, type_: str) -> str:
        at.enqueue(at.make("Constant", kernel="guarded", constant=name, type=type_))
        return at.told("constant ")[-1]

    with session(library) as at:
        assert [read("BLOCK", "i8"), read("BLOCK", "i64"), read("NAME", "text")] == ["64", "64", "text"]
        assert [read("RATIO", "double"), read("FLAG", "bool")] == ["0.5", "1"]
        for kernel, name, type_, message in [
            ("guarded", "BLOCK", "text", "constant BLOCK is of type integer, not text"),
            ("guarded", "FLAG", "i64", "constant FLAG is of type bool, not integer"),
            ("guarded", "RATIO", "bool", "constant RATIO is of type number, not bool"),
            (
                *("guarded", "BLOK", "i64"),
                "has no constant BLOK; it has BLOCK (integer), NAME (text), RATIO (number), FLAG (bool)",
            ),
            ("every_type", "BLOCK", "i64", "has no constant BLOCK; it has none"),
            ("shared", "N", "i8", "constant N is 128, which the type asked for cannot hold"),
        ]:
            with pytest.raises(PluginFailedError) as caught:
                at.enqueue(at.make("Constant", kernel=kernel, constant=name, type=type_))
            assert caught.value.messages == (f"Constant: onShapeChange: kernel {kernel}#0: {message}",)
