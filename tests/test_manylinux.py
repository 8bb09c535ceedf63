"""Which manylinux tags a library fits, beside what auditwheel says."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
from helpers.bundles import collect
from helpers.libraries import link_library, link_stub
from helpers.wheels import write_wheel

from hatch_tensoracle.elf import LibraryImage
from hatch_tensoracle.errors import ConfigurationError, TagError
from hatch_tensoracle.inspection import check_wheel
from hatch_tensoracle.manylinux import manylinux_minor, misfits, oldest_minor
from hatch_tensoracle.platform_tag import platform_tag


class Needs(LibraryImage):
    """A library that needs just these versions of symbols."""

    def __init__(self, *versions: str) -> None:
        self.versions = versions

    def version_needs(self) -> tuple[tuple[str, str], ...]:
        """The versions, of a library that is not looked at."""
        return tuple(("libc.so.6", version) for version in self.versions)

    def dynamic(self, *tags: str) -> tuple[str, ...]:
        """What every system has."""
        return ("libc.so.6", "libstdc++.so.6") if "needed" in tags else ()


POLICIES = {
    policy["name"]: policy["symbol_versions"]["x86_64"]
    for policy in json.loads(resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text())
    if policy["name"] != "linux"
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_tag_promises_what_auditwheel_takes_it_to(name: str) -> None:
    minor = manylinux_minor(f"{name}_x86_64")
    assert minor is not None
    promised = {f"{kind}_{version}" for kind, versions in POLICIES[name].items() for version in versions}
    every = {
        f"{kind}_{version}"
        for symbols in POLICIES.values()
        for kind in ("GLIBC", "GLIBCXX", "CXXABI", "GCC")
        for version in symbols[kind]
    }
    assert {version for version in every if not misfits(Needs(version), minor)} == promised & every


@pytest.mark.parametrize(
    ("versions", "minor"),
    [
        pytest.param((), 5, id="nothing"),
        pytest.param(("GLIBC_2.34", "GLIBCXX_3.4.29"), 34, id="of-one-age"),
        pytest.param(("GLIBC_2.17", "GLIBCXX_3.4.30"), 35, id="newer-libstdc++"),
        pytest.param(("GLIBC_2.2.5", "CXXABI_1.3.9"), 24, id="newer-abi-of-libstdc++"),
        pytest.param(("GLIBC_2.2.5", "GCC_14.0.0"), 39, id="newer-libgcc"),
        pytest.param(("GLIBC_2.33",), 33, id="no-policy-of-auditwheel"),
        pytest.param(("GLIBC_2.34", "GLIBC_ABI_DT_RELR"), 36, id="without-number"),
        pytest.param(("GLIBC_2.34", "GLIBC_PRIVATE"), None, id="private"),
        pytest.param(("GLIBCXX_3.4.99",), None, id="not-known-yet"),
    ],
)
def test_the_newest_need_decides(versions: tuple[str, ...], minor: int | None) -> None:
    assert oldest_minor([Needs(), Needs(*versions)]) == minor


@pytest.mark.parametrize(
    ("platform", "minor"),
    [
        ("manylinux_2_28_x86_64", 28),
        ("manylinux2014_x86_64", 17),
        ("manylinux1_x86_64", 5),
        ("linux_x86_64", None),
        ("manylinux_2_28_aarch64", None),
        ("any", None),
    ],
)
def test_the_older_names_of_tags_are_known(platform: str, minor: int | None) -> None:
    assert manylinux_minor(platform) == minor


@pytest.fixture
def library(tiny_bundle: Path, tmp_path: Path) -> Path:
    """A library that needs memcpy of glibc 2.14."""
    (tmp_path / "old.c").write_text(
        '#include <string.h>\n__asm__(".symver memcpy, memcpy@GLIBC_2.14");\n'
        "static void* (*volatile copy)(void*, void const*, size_t) = memcpy;\n"
        "__attribute__((constructor)) static void use(void) { copy(&copy, &copy, sizeof copy); }\n"
    )
    return link_library(tiny_bundle, tmp_path / "libx.so", options=[tmp_path / "old.c", "-nostartfiles"])


def test_the_tag_of_a_real_library(library: Path) -> None:
    assert platform_tag("linux", {}) == "linux_x86_64"
    assert platform_tag("auto", {"pkg/libx.so": library}) == "manylinux_2_14_x86_64"
    assert platform_tag("manylinux_2_28", {"pkg/libx.so": library}) == "manylinux_2_28_x86_64"
    with pytest.raises(ConfigurationError, match=r"is 'manylinux_2_12', but pkg/libx\.so needs GLIBC_2\.14$"):
        platform_tag("manylinux_2_12", {"pkg/libx.so": library})


def test_a_library_that_systems_lack_fits_no_tag(tiny_bundle: Path, tmp_path: Path) -> None:
    stub = link_stub(tmp_path, "libstrange.so.1")
    library = link_library(tiny_bundle, tmp_path / "libx.so", options=["-Wl,--no-as-needed", stub])
    for asked in ("auto", "manylinux_2_99"):
        with pytest.raises(ConfigurationError, match=f"is '{asked}', but pkg/libx.so needs libstrange.so.1$"):
            platform_tag(asked, {"pkg/libx.so": library})


@pytest.mark.parametrize("tag", ["manylinux_2_12_x86_64", "manylinux2010_x86_64"])
def test_a_wheel_whose_tag_promises_too_much_is_a_defect(
    library: Path, tiny_bundle: Path, tmp_path: Path, tag: str
) -> None:
    files = {"pkg/libx.so": library.read_bytes(), "pkg/libx.bundle.json": (tiny_bundle / "bundle.json").read_bytes()}
    wheel = write_wheel(tmp_path, files, tag=f"py3-none-{tag}")
    (defect,), _ = collect(check_wheel(wheel))
    assert isinstance(defect, TagError)
    assert defect.cause.endswith("but pkg/libx.so needs GLIBC_2.14")
