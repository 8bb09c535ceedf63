"""Values reach the kernel bit for bit, or the launch is refused with argument, value and reason."""

from __future__ import annotations

import math
from pathlib import Path

from testing.child import in_child

from launcher.launching import argument, packed, session

TYPES = ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64")
POINTER = "pointer:7f0123456780"
ONES = [POINTER, *(argument("bool" if type_ == "i1" else type_, 1) for type_ in TYPES)]

# Bits of each type: zero, limits, subnormals, infinities, NaNs quiet and signalling with payloads, either sign.
BITS = {
    "i1": [0, 1],
    "fp16": [0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFC00, 0x7C00, 0x7E00, 0x7D55, 0xFC01, 0x3555],
    "bf16": [0x0000, 0x8000, 0x0001, 0x807F, 0x7F7F, 0xFF80, 0x7F80, 0x7FC0, 0x7FA5, 0xFF81, 0x3EAB],
    "fp32": [
        0x00000000,
        0x80000000,
        0x00000001,
        0x807FFFFF,
        0x7F7FFFFF,
        0xFF800000,
        0x7FC00000,
        0x7FA12345,
        0xFF800001,
    ],
    "fp64": [
        *(0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF),
        *(0xFFF0000000000000, 0x7FF8000000000000, 0x7FF4123456789ABC, 0xFFF0000000000001, 0x3FD5555555555555),
    ],
    **{
        f"{sign}{width}": [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1, 0xA5 % (1 << width)]
        for sign in "iu"
        for width in (8, 16, 32, 64)
    },
}
SIZES = {type_: len(packed(type_, 1)) for type_ in TYPES}

# Parameter, argument, and what is passed: the value is the same.
LOSSLESS = [
    ("i1", argument("i32", 1), packed("i1", 1)),
    ("i1", argument("u64", 0), packed("i1", 0)),
    ("i8", argument("i64", -128), packed("i8", -128)),
    ("i8", argument("u64", 127), packed("i8", 127)),
    ("i32", argument("i64", -(2**31)), packed("i32", -(2**31))),
    ("i32", argument("u64", 2**31 - 1), packed("i32", 2**31 - 1)),
    ("i64", argument("i8", -1), packed("i64", -1)),
    ("i64", argument("u32", 2**32 - 1), packed("i64", 2**32 - 1)),
    ("i64", argument("bool", 1), packed("i64", 1)),
    ("u8", argument("i64", 255), packed("u8", 255)),
    ("u32", argument("i64", 2**32 - 1), packed("u32", 2**32 - 1)),
    ("u64", argument("i64", 2**63 - 1), packed("u64", 2**63 - 1)),
    ("fp16", argument("fp64", 65504), packed("fp16", 65504)),
    ("fp16", argument("fp32", 2.0**-24), packed("fp16", 2.0**-24)),
    ("fp16", argument("fp32", -0.0), packed("fp16", -0.0)),
    ("fp16", argument("bf16", 0.5), packed("fp16", 0.5)),
    ("fp16", argument("fp32", math.inf), packed("fp16", math.inf)),
    ("fp16", "fp32:7fc00000", bytes.fromhex("007e")),
    ("fp16", "fp32:7f802000", bytes.fromhex("017c")),  # signalling, and its payload fits
    ("fp16", "fp64:fff0040000000000", bytes.fromhex("01fc")),
    ("bf16", argument("fp64", 2.0**-133), packed("bf16", 2.0**-133)),
    ("bf16", argument("fp32", -1.5), packed("bf16", -1.5)),
    ("bf16", argument("fp16", 1.5), packed("bf16", 1.5)),
    ("bf16", "fp32:ffa10000", bytes.fromhex("a1ff")),
    ("fp32", argument("fp16", 2.0**-24), packed("fp32", 2.0**-24)),
    ("fp32", argument("bf16", 3.0), packed("fp32", 3.0)),
    ("fp32", argument("fp64", 2.0**-149), packed("fp32", 2.0**-149)),
    ("fp32", argument("fp64", -math.inf), packed("fp32", -math.inf)),
    ("fp32", "fp64:7ff4000020000000", bytes.fromhex("0100a07f")),
    ("fp32", "fp16:7d55", bytes.fromhex("00a0aa7f")),
    ("fp64", argument("fp32", 0.1), packed("fp64", 0.10000000149011612)),
    ("fp64", argument("fp16", -0.0), packed("fp64", -0.0)),
    ("fp64", "fp32:7fa12345", bytes.fromhex("000000a06824f47f")),
    ("fp64", "bf16:7fa5", bytes.fromhex("0000000000a0f47f")),
]

# Parameter, argument, and the end of the message.
LOSSY = [
    ("i1", argument("i32", 2), "is 2, which i1 cannot hold exactly"),
    ("i1", argument("i32", -1), "is -1, which i1 cannot hold exactly"),
    ("i8", argument("i32", 128), "is 128, which i8 cannot hold exactly"),
    ("i8", argument("i64", -129), "is -129, which i8 cannot hold exactly"),
    ("i16", argument("u16", 32768), "is 32768, which i16 cannot hold exactly"),
    ("i32", argument("i64", 2**31), "is 2147483648, which i32 cannot hold exactly"),
    ("i32", argument("i64", -(2**31) - 1), "is -2147483649, which i32 cannot hold exactly"),
    ("i32", argument("i64", 2**32 + 5), "is 4294967301, which i32 cannot hold exactly"),
    ("i64", argument("u64", 2**63), "is 9223372036854775808, which i64 cannot hold exactly"),
    ("u8", argument("i8", -1), "is -1, which u8 cannot hold exactly"),
    ("u16", argument("u32", 65536), "is 65536, which u16 cannot hold exactly"),
    ("u32", argument("i64", 2**32), "is 4294967296, which u32 cannot hold exactly"),
    ("u64", argument("i64", -1), "is -1, which u64 cannot hold exactly"),
    ("fp16", argument("fp32", 0.1), "is 0.1, which fp16 cannot hold exactly"),
    ("fp16", argument("fp64", 65520), "is 65520, which fp16 cannot hold exactly"),
    ("fp16", argument("fp32", 2.0**-25), "is 2.9802322e-08, which fp16 cannot hold exactly"),
    ("fp16", "fp32:7f800001", "is NaN, which fp16 cannot hold exactly"),  # the payload would be lost
    ("bf16", argument("fp32", 1.0000001192092896), "is 1.0000001, which bf16 cannot hold exactly"),
    ("bf16", argument("fp64", 1e300), "is 1e+300, which bf16 cannot hold exactly"),
    ("fp32", argument("fp64", 0.1), "is 0.1, which fp32 cannot hold exactly"),
    ("fp32", argument("fp64", 2.0**-150), "is 7.006492321624085e-46, which fp32 cannot hold exactly"),
    ("fp32", "fp64:7ff0000000000001", "is NaN, which fp32 cannot hold exactly"),
]

WRONG_KINDS = [
    ("target", argument("i64", 4096), "argument target (*fp64) is an integer, 4096"),
    ("target", argument("fp64", 0.5), "argument target (*fp64) is a double, 0.5"),
    ("i32", POINTER, "argument i32 (i32) is a pointer, 0x7f0123456780"),
    ("i32", argument("fp32", 3), "argument i32 (i32) is a float, 3"),
    ("u64", argument("fp16", 3), "argument u64 (u64) is an fp16 number, 3"),
    ("fp32", argument("i32", 3), "argument fp32 (fp32) is an integer, 3"),
    ("fp64", argument("u8", 3), "argument fp64 (fp64) is an integer, 3"),
    ("fp16", "null", "argument fp16 (fp16) is a pointer, 0x0"),
    ("i1", argument("bf16", 1), "argument i1 (i1) is a bf16 number, 1"),
]


def one_changed(parameter: str, given: str) -> list[str]:
    changed = list(ONES)
    changed[0 if parameter == "target" else 1 + TYPES.index(parameter)] = given
    return changed


@in_child
def test_every_type_is_passed_bit_for_bit(library: Path) -> None:
    with session(library) as at:
        for type_, patterns in BITS.items():
            for bits in patterns:
                at.driver.clear()
                given = f"{'bool' if type_ == 'i1' else type_}:{bits:x}"
                at.launch("every_type", one_changed(type_, given))
                (launch,) = at.driver.launches
                expected = [(0x7F0123456780).to_bytes(8, "little"), *(packed(known, 1) for known in TYPES)]
                expected[1 + TYPES.index(type_)] = bits.to_bytes(SIZES[type_], "little")
                assert list(launch.arguments[:14]) == expected, given


@in_child
def test_two_null_scratch_pointers_follow_the_arguments(library: Path) -> None:
    with session(library) as at:
        at.launch("every_type", ONES)
        (launch,) = at.driver.launches
        assert launch.arguments[14:] == (bytes(8), bytes(8))


@in_child
def test_other_types_are_converted_where_nothing_is_lost(library: Path) -> None:
    with session(library) as at:
        for parameter, given, expected in LOSSLESS:
            at.driver.clear()
            at.launch("every_type", one_changed(parameter, given))
            (launch,) = at.driver.launches
            assert launch.arguments[1 + TYPES.index(parameter)] == expected, (parameter, given)


@in_child
def test_what_would_be_lost_is_refused_with_argument_value_and_reason(library: Path) -> None:
    with session(library) as at:
        for parameter, given, reason in LOSSY:
            text = f"argument {parameter} ({parameter}) {reason}"
            assert at.refusal("every_type", one_changed(parameter, given)) == (
                f"Launch: enqueue: kernel every_type: no variant accepts the arguments; variant 0: {text}"
            )
            assert at.refusal("every_type", one_changed(parameter, given), how="first") == (
                f"Launch: enqueue: kernel every_type#0, sm_86: {text}"
            )


@in_child
def test_arguments_of_another_kind_are_refused(library: Path) -> None:
    with session(library) as at:
        for parameter, given, text in WRONG_KINDS:
            for how in ("select", "first"):
                message = at.refusal("every_type", one_changed(parameter, given), how=how)
                assert message == f"Launch: enqueue: kernel every_type#0, sm_86: {text}"


@in_child
def test_wrong_number_of_arguments_is_answered_with_their_names(library: Path) -> None:
    names = "target, " + ", ".join(TYPES)
    with session(library) as at:
        for given in ([], ONES[:-1], [*ONES, POINTER], [POINTER] * 64):
            for how in ("select", "first"):
                assert at.refusal("every_type", given, how=how) == (
                    f"Launch: enqueue: kernel every_type#0, sm_86: is given {len(given)} arguments; "
                    f"it takes 14: {names}"
                )
        assert at.refusal("every_type", [POINTER] * 65) == "Launch: enqueue: a launch takes at most 64 arguments"
