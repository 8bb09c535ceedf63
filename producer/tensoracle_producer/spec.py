"""What an author declares: kernels, their arguments, constants and compiler options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hatch_tensoracle.bundle import ELEMENT_SIZES, SCALAR_SIZES

__all__ = ["Config", "KernelSpec", "Pointer", "Scalar"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIVISORS = tuple(2**n for n in range(8))
_WARPS = (1, 2, 4, 8, 16, 32)
_MAX_ARGUMENTS = 64
_MAX_STAGES = 32
_MIN_REGISTERS = 24
"""ptxas raises what is lower, for every target."""
_MAX_REGISTERS = 255
_OPTIONS = ("num_warps", "num_stages", "maxnreg", "enable_fp_fusion", "default_dot_input_precision")
_DESCRIPTOR = (
    "which the host would have to make for every launch: pass a pointer and sizes, and make it in the kernel with"
    " tl.make_tensor_descriptor"
)
_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer to device memory.

    `element` is the Triton name of what it points to: i1, i8 to i64, u8 to u64, fp16, bf16, fp32, fp64, fp8e4nv, fp8e5
    or fp8e4b15. With `divisible_by=16` the kernel is compiled for addresses that are multiples of
    16 bytes; the launcher runs that variant on no others. Raises TypeError or ValueError naming the field.
    """

    element: str
    divisible_by: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        _check_choice("Pointer.element", self.element, ELEMENT_SIZES)
        _check_choice("Pointer.divisible_by", self.divisible_by, _DIVISORS)

    @property
    def type(self) -> str:
        """The type in a Triton signature."""
        return f"*{self.element}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number passed by value.

    `type` is i1, i8 to i64, u8 to u64, fp16, bf16, fp32 or fp64. For integers the kernel can be compiled for multiples
    of `divisible_by`, or with `equal_to=1` for the value 1, which is then no kernel parameter, but still of its type in
    the kernel; the launcher runs that variant on no other values. Raises TypeError or ValueError naming the field.
    """

    type: str
    divisible_by: int = field(default=1, kw_only=True)
    equal_to: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_choice("Scalar.type", self.type, SCALAR_SIZES)
        _check_choice("Scalar.divisible_by", self.divisible_by, _DIVISORS)
        is_integer = self.type[0] in "iu" and self.type != "i1"
        if not is_integer and (self.divisible_by != 1 or self.equal_to is not None):
            message = f"Scalar.divisible_by and Scalar.equal_to are for integers wider than one bit, not {self.type}"
            raise ValueError(message)
        if self.equal_to is not None:
            # Of contiguous strides. A kernel for one other value has it as a constant, or is a kernel of its own.
            _check_choice("Scalar.equal_to", self.equal_to, (1,))
            if self.divisible_by != 1:
                message = f"Scalar.equal_to 1 is not divisible by {self.divisible_by}"
                raise ValueError(message)


@dataclass(frozen=True, slots=True, init=False)
class Config:
    """One configuration of a kernel: tile sizes and other constants, and options that replace those of the spec.

    `Config(BM=128, BN=64, num_warps=8)`. Where an option is None, the spec's own holds.
    """

    constants: Mapping[str, Any]
    num_warps: int | None
    num_stages: int | None
    maxnreg: int | None

    def __init__(
        self,
        *,
        num_warps: int | None = None,
        num_stages: int | None = None,
        maxnreg: int | None = None,
        **constants: Any,
    ) -> None:
        object.__setattr__(self, "constants", constants)
        object.__setattr__(self, "num_warps", num_warps)
        object.__setattr__(self, "num_stages", num_stages)
        object.__setattr__(self, "maxnreg", maxnreg)

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages, "maxnreg": self.maxnreg}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """One variant of a kernel: a `triton.jit` function and everything that is fixed when it is compiled.

    `arguments` describes, in order, the parameters of the function that are passed at launch; `constants` gives the
    others by name: numbers, None, bool, str, Triton dtypes, `triton.jit` functions, tuples of these. A `tl.constexpr`
    parameter with a default may be left out. Specs of one `name` are variants of one kernel and are tried in order at
    launch, so the one that assumes nothing comes last. With `configs` the kernel is compiled once for each Config, and
    a plugin chooses among them, by shape or as TensorRT's tactics. The options are Triton's; those that change results
    have fixed defaults here, whatever Triton's are: `enable_fp_fusion` contracts a*b+c, `default_dot_input_precision`
    is for fp32 `tl.dot`.
    Raises TypeError or ValueError naming kernel and field.
    """

    function: Any = field(kw_only=False)
    name: str
    arguments: Sequence[Pointer | Scalar]
    constants: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    default_dot_input_precision: str = "tf32"
    configs: Sequence[Config] = ()

    def __post_init__(self) -> None:
        _check_type("KernelSpec.name", self.name, str)
        if not _NAME.fullmatch(self.name):
            message = f"KernelSpec.name must be a C identifier such as 'add_fp16', not {self.name!r}"
            raise ValueError(message)
        where = f"KernelSpec `{self.name}`: "
        _check_function(where + "function", self.function)
        _check_type(where + "arguments", self.arguments, Iterable)
        _check_type(where + "constants", self.constants, Mapping)
        object.__setattr__(self, "arguments", tuple(self.arguments))
        object.__setattr__(self, "constants", dict(self.constants))
        if len(self.arguments) > _MAX_ARGUMENTS:
            message = f"{where}arguments has {len(self.arguments)} entries; the launcher takes at most {_MAX_ARGUMENTS}"
            raise ValueError(message)
        for i, argument in enumerate(self.arguments):
            if not isinstance(argument, Pointer | Scalar):
                message = f"{where}arguments[{i}] must be a Pointer or a Scalar, not {argument!r}"
                raise TypeError(message)
        _check_choice(where + "num_warps", self.num_warps, _WARPS)
        _check_count(where + "num_stages", self.num_stages, 1, _MAX_STAGES)
        if self.maxnreg is not None:
            _check_count(where + "maxnreg", self.maxnreg, _MIN_REGISTERS, _MAX_REGISTERS)
        _check_choice(where + "enable_fp_fusion", self.enable_fp_fusion, (False, True))
        _check_choice(where + "default_dot_input_precision", self.default_dot_input_precision, _PRECISIONS)
        _check_type(where + "configs", self.configs, Iterable)
        object.__setattr__(self, "configs", tuple(self.configs))
        for i, config in enumerate(self.configs):
            _check_type(f"{where}configs[{i}]", config, Config)
        if self.configs:
            self.configurations()  # each is checked as it is made
        else:
            object.__setattr__(self, "constants", self._completed_constants(where))

    def configurations(self) -> tuple[KernelSpec, ...]:
        """The spec of every configuration; the spec itself if it has no `configs`."""
        return tuple(self._configured(i, config) for i, config in enumerate(self.configs)) or (self,)

    def _configured(self, i: int, config: Config) -> KernelSpec:
        constants = {**self.constants, **config.constants}
        try:
            return dataclasses.replace(self, configs=(), constants=constants, **config.options)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}, in configs[{i}]") from error

    @property
    def options(self) -> dict[str, bool | int | str | None]:
        """Every compiler option, given or default."""
        return {name: getattr(self, name) for name in _OPTIONS}

    @property
    def parameters(self) -> tuple[tuple[str, Pointer | Scalar], ...]:
        """The arguments with their names in the function."""
        names = [param.name for param in self.function.params if param.name not in self.constants]
        return tuple(zip(names, self.arguments, strict=True))

    def _completed_constants(self, where: str) -> dict[str, Any]:
        """Add the defaults of constexpr parameters, put all in the function's order, match the rest with arguments."""
        parameters = {param.name: param for param in self.function.params}
        constants = dict(self.constants)
        for name in constants:
            if name not in parameters:
                message = f"{where}constants has `{name}`, the function has only {', '.join(parameters)}"
                raise ValueError(message)
        for name, param in parameters.items():
            if param.is_constexpr and name not in constants:
                if not param.has_default:
                    message = f"{where}constants lacks `{name}`, a tl.constexpr parameter of the function"
                    raise ValueError(message)
                constants[name] = param.default
        rest = [name for name in parameters if name not in constants]
        if len(rest) != len(self.arguments):
            message = (
                f"{where}arguments has {len(self.arguments)} entries, but the function has {len(rest)} parameters"
                f" that are no constants: {', '.join(rest)}"
            )
            raise ValueError(message)
        for name in rest:
            if "tensor_descriptor" in str(parameters[name].annotation):
                message = f"{where}parameter `{name}` is a tensor descriptor, {_DESCRIPTOR}"
                raise ValueError(message)
        return {name: constants[name] for name in parameters if name in constants}


def _check_function(where: str, function: Any) -> None:
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    if isinstance(function, Autotuner | Heuristics):
        raise TypeError(where + _undecorated(function))
    if not isinstance(function, JITFunction) or function.is_gluon():
        message = f"{where} must be a triton.jit function, not {function!r}"
        raise TypeError(message)
    if function.debug:
        message = f"{where} is declared with debug=True, but device assertions are not compiled in: leave it out"
        raise ValueError(message)


def _undecorated(function: Any) -> str:
    """What to write instead of an autotuner or heuristics around a kernel."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    decorators, advice, inner = [], ["pass the triton.jit function itself, which is its attribute fn"], function
    while isinstance(inner, Autotuner | Heuristics):
        if inner is not function:
            advice[0] += ".fn"
        if isinstance(inner, Autotuner):
            decorators.append("triton.autotune")
            advice.append(f"write configs=[{', '.join(map(_config_text, inner.configs))}] in the spec")
        else:
            decorators.append("triton.heuristics")
            advice.append(f"give {', '.join(f'`{name}`' for name in inner.values)} in constants")
        inner = inner.fn
    return f"is decorated with {' and '.join(decorators)}, which choose at run time: {'; '.join(advice)}"


def _config_text(config: Any) -> str:
    """A triton.Config as ours; what ours has not stands there too, and is refused by name then."""
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.maxnreg is not None:
        options["maxnreg"] = config.maxnreg
    if config.num_ctas != 1:
        options["num_ctas"] = config.num_ctas
    if config.pre_hook is not None:
        options["pre_hook"] = config.pre_hook
    return f"Config({', '.join(f'{name}={value!r}' for name, value in {**config.kwargs, **options}.items())})"


def _check_type(where: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        message = f"{where} must be {kind.__name__}, not {value!r}"
        raise TypeError(message)


def _check_choice(where: str, value: object, choices: Iterable[object]) -> None:
    known = list(choices)
    if type(value) not in {type(choice) for choice in known}:
        message = f"{where} must be {type(known[0]).__name__}, not {value!r}"
        raise TypeError(message)
    if value not in known:
        message = f"{where} must be one of {', '.join(map(str, known))}, not {value!r}"
        raise ValueError(message)


def _check_count(where: str, value: object, least: int, most: int) -> None:
    if type(value) is not int:
        message = f"{where} must be int, not {value!r}"
        raise TypeError(message)
    if not least <= value <= most:
        message = f"{where} must be from {least} to {most}, not {value}"
        raise ValueError(message)
