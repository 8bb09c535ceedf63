"""Our own plugin_abi.hpp has the vtables, signatures, layouts and values that were measured on TensorRT's headers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HEADER = Path(__file__).parents[2] / "cpp" / "include" / "tensoracle" / "plugin_abi.hpp"
FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("plugin_abi.json").read_text())

# The registry is never called. The logger moved between releases: it is called by slot, and only Severity is declared.
LEFT_OUT = {"IPluginRegistry", "ILogger", "ILoggerFinder"}

PRELUDE = r"""
#include "plugin_abi.hpp"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <cxxabi.h>
#include <type_traits>
#include <typeinfo>

using namespace nvinfer1;

// The Itanium C++ ABI: a pointer to a virtual method holds one plus the method's offset in the vtable.
template <class Method>
void method(char const* key, Method pointer) {
  std::ptrdiff_t value;
  std::memcpy(&value, &pointer, sizeof value);
  int status = 0;
  char* const type = abi::__cxa_demangle(typeid(Method).name(), nullptr, nullptr, &status);
  std::printf("%s slot\t%td\n%s type\t%s\n", key, (value - 1) / static_cast<std::ptrdiff_t>(sizeof(void*)), key, type);
}

template <class Enum>
void enumeration(char const* key) {
  bool const isInt32 = std::is_same_v<std::underlying_type_t<Enum>, std::int32_t>;
  std::printf("%s\t%s\n", key, isInt32 ? "int32_t" : "another type");
}

void number(char const* key, long long value) { std::printf("%s\t%lld\n", key, value); }

// The qualified call runs the method without an object's vtable, so abstract classes answer too.
template <class Interface>
void information(char const* key) {
  alignas(Interface) static char storage[sizeof(Interface)];
  InterfaceInfo const info = reinterpret_cast<Interface*>(storage)->Interface::getInterfaceInfo();
  std::printf("%s\t%s %d.%d\n", key, info.kind, info.major, info.minor);
}
"""


def probe_and_expectation() -> tuple[str, dict[str, str]]:  # noqa: C901 - a loop for each kind of fact
    """Return a program that prints one line per fact, and what the lines must say."""
    statements: list[str] = []
    expected: dict[str, str] = {}

    def add(key: str, value: object, statement: str) -> None:
        expected[key] = str(value)
        statements.append(statement)

    for interface, methods in FACTS["interfaces"].items():
        if interface in LEFT_OUT:
            continue
        key = f"{interface} destructor"
        add(key, 1, f'number("{key}", std::has_virtual_destructor_v<{interface}>);')
        for method in methods:
            key = f"{interface}::{method['method']}"
            expected[f"{key} slot"] = str(method["slot"])
            add(f"{key} type", method["type"], f'method("{key}", &{key});')
    for record, layout in FACTS["sizes"].items():
        for operator, fact in (("sizeof", "size"), ("alignof", "align")):
            key = f"{operator}({record})"
            add(key, layout[fact], f'number("{key}", {key});')
    for record, members in FACTS["offsets"].items():
        for member, layout in members.items():
            key = f"offsetof({record}, {member})"
            add(key, layout["offset"], f'number("{key}", {key});')
            key = f"sizeof({record}::{member})"
            add(key, layout["size"], f'number("{key}", {key});')
    enumerations = FACTS["enums"] | {
        "ILogger::Severity": {"underlying": "int32_t", "values": FACTS["layout_notes"]["Severity"]}
    }
    for enumeration, fact in enumerations.items():
        add(enumeration, fact["underlying"], f'enumeration<{enumeration}>("{enumeration}");')
        for name, value in fact["values"].items():
            key = f"{enumeration}::{name}"
            add(key, value, f'number("{key}", static_cast<long long>({key}));')
    for constant, value in FACTS["constants"].items():
        name = constant.replace(".", "::")
        add(name, value, f'number("{name}", {name});')
    for interface, (kind, major, minor) in FACTS["interface_info"].items():
        if interface not in LEFT_OUT:
            key = f"{interface} information"
            add(key, f"{kind} {major}.{minor}", f'information<{interface}>("{key}");')
    return PRELUDE + "int main() {\n  " + "\n  ".join(statements) + "\n}\n", expected


PROBE, EXPECTED = probe_and_expectation()


def observe(header: str, directory: Path, *options: str) -> dict[str, str]:
    """Compile the probe against a header's text and return what it prints."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    (directory / "plugin_abi.hpp").write_text(header)
    (directory / "probe.cpp").write_text(PROBE)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-invalid-offsetof"]
    subprocess.run([compiler, *flags, *options, "-o", "probe", "probe.cpp"], cwd=directory, check=True)
    printed = subprocess.run([directory / "probe"], check=True, capture_output=True, text=True).stdout
    observed = dict(line.split("\t") for line in printed.splitlines())
    return {key: plain(value) for key, value in observed.items()}


def plain(type_name: str) -> str:
    """Return a type's name as the facts spell it: without namespaces and the alias that Dims is."""
    for prefix in ("nvinfer1::", "v_1_0::", "v_2_0::"):
        type_name = type_name.replace(prefix, "")
    return type_name.replace("Dims64", "Dims")


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what the probe prints for the header as it is."""
    return observe(HEADER.read_text(), tmp_path_factory.mktemp("abi"))


@pytest.mark.parametrize("fact", EXPECTED)
def test_header_agrees_with_the_measured_fact(observed: dict[str, str], fact: str) -> None:
    """Every slot, signature, size, offset, value and interface information is the measured one."""
    assert observed[fact] == EXPECTED[fact]


def test_probe_prints_nothing_beside_the_facts(observed: dict[str, str]) -> None:
    """No fact is lost between the file and the comparison."""
    assert observed.keys() == EXPECTED.keys()


@pytest.mark.parametrize(
    ("before", "after", "fact"),
    [
        pytest.param(
            "  virtual std::int32_t release() noexcept = 0;\n  virtual IPluginResource* clone() noexcept = 0;\n",
            "  virtual IPluginResource* clone() noexcept = 0;\n  virtual std::int32_t release() noexcept = 0;\n",
            "IPluginResource::release slot",
            id="two methods swapped",
        ),
        pytest.param(
            "virtual std::int32_t getNbOutputs() const noexcept = 0;",
            "virtual std::int32_t getNbOutputs() noexcept = 0;",
            "IPluginV3OneBuild::getNbOutputs type",
            id="a const dropped",
        ),
        pytest.param(
            "virtual std::int32_t setTactic(std::int32_t) noexcept",
            "virtual std::int32_t setTactic(std::int32_t)",
            "IPluginV3OneRuntime::setTactic type",
            id="a noexcept dropped",
        ),
        pytest.param(
            "virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;\n  virtual ~IVersionedInterface()",
            "virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;\n  ~IVersionedInterface()",
            "IPluginV3::clone slot",
            id="a destructor not virtual",
        ),
        pytest.param("kBF16 = 7,", "kBF16 = 17,", "DataType::kBF16", id="a value changed"),
        pytest.param(
            "enum class DataType : std::int32_t",
            "enum class DataType : std::uint8_t",
            "DataType",
            id="an enum narrowed",
        ),
        pytest.param(
            "  DataType type;\n  TensorFormat format;",
            "  TensorFormat format;\n  DataType type;",
            "offsetof(PluginTensorDesc, type)",
            id="two members swapped",
        ),
        pytest.param("std::int64_t d[MAX_DIMS]", "std::int32_t d[MAX_DIMS]", "sizeof(Dims)", id="a member narrowed"),
        pytest.param('{"PLUGIN", 1, 0}', '{"PLUGIN", 2, 0}', "IPluginV3 information", id="a version changed"),
        pytest.param("MAX_DIMS = 8", "MAX_DIMS = 9", "Dims::MAX_DIMS", id="a constant changed"),
    ],
)
def test_comparison_notices_a_changed_header(tmp_path: Path, before: str, after: str, fact: str) -> None:
    """A header with one defect disagrees with the facts where the defect is."""
    header = HEADER.read_text()
    assert header.count(before) == 1
    assert observe(header.replace(before, after), tmp_path)[fact] != EXPECTED[fact]
