"""The HTML report, as a browser shows it: Debian's package `chromium`, without a network."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers.tools import tool

from hatch_tensoracle import Bundle
from hatch_tensoracle.advice import Advice
from hatch_tensoracle.cli import main
from hatch_tensoracle.errors import CorruptCubinError, ScratchError
from hatch_tensoracle.html_report import to_html
from hatch_tensoracle.report import Finding

METRICS = ("size", "registers", "local", "shared", "occupancy")

PROBE = """
const asked = [];
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgb(color) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function luminance(color) {
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const [r, g, b] = rgb(color).slice(0, 3).map(v => linear(v / 255));
  return .2126 * r + .7152 * g + .0722 * b;
}
function background(element) {
  for (; element; element = element.parentElement) {
    const color = getComputedStyle(element).backgroundColor;
    if (rgb(color)[3] === 255) return color;
  }
  return 'white';
}
function contrast(element) {
  const [a, b] = [luminance(getComputedStyle(element).color), luminance(background(element))].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
}
const hasText = element => [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
const texts = () => [...document.querySelectorAll('body *')].filter(
  e => e.checkVisibility() && hasText(e) && !e.closest('style, script'));
const result = {title: document.title, themes: {}};
for (const theme of ['light', 'dark']) {
  document.getElementById(`theme-${theme}`).click();
  const shown = result.themes[theme] = {page: rgb(getComputedStyle(document.body).backgroundColor), metrics: {}};
  for (const metric of METRICS) {
    const radio = document.getElementById(`show-${metric}`);
    if (radio) radio.click();
    const cells = [...document.querySelectorAll('tbody td.cell')];
    const lowest = texts().map(e => [contrast(e), e.textContent.slice(0, 40)]).sort((a, b) => a[0] - b[0])[0];
    shown.metrics[metric] = {
      cells: cells.map(c => c.innerText.split('\\\\n')[0]),
      colors: cells.map(c => rgb(getComputedStyle(c).backgroundColor).join()),
      key: [...document.querySelectorAll('.key')].filter(e => e.checkVisibility()).map(e => e.innerText),
      lowest,
    };
  }
}
result.order = [...document.querySelectorAll('section')].map(s => s.className);
result.wide = document.documentElement.scrollWidth > innerWidth;
const unlabelled = input => !input.labels.length || !input.labels[0].innerText.trim();
result.unlabelled = [...document.querySelectorAll('input')].filter(unlabelled).length;
result.loaded = performance.getEntriesByType('resource').map(e => e.name);
document.body.innerHTML = ''; document.body.append(JSON.stringify(result));
"""


@pytest.fixture(scope="module")
def bundle(ptx_bundle: Path) -> Bundle:
    """One kernel for sm120 and as PTX for sm89, with a second variant that is larger and spills."""
    bundle = Bundle.parse((ptx_bundle / "bundle.json").read_bytes(), "")
    (entry,) = bundle.entries
    (cubin,) = entry.cubins
    second = dataclasses.replace(
        cubin, size=cubin.size * 4, registers=255, local_bytes=4096, dynamic_shared=65536, threads=256
    )
    assert entry.ptx is not None
    spilling = dataclasses.replace(entry, variant=1, cubins=(second,))
    return dataclasses.replace(bundle, entries=(entry, spilling))


def finding(bundle: Bundle, *defects: Any) -> Finding:
    advice = [Advice(id="spills", where="lib.so", cause="4096 bytes", remedy="Use less.")]
    return Finding(path="dist/pkg.whl", bundles={"pkg/libpkg.so": bundle}, defects=defects, advice=advice)


def shown(page: str, directory: Path, *, width: int = 1200) -> dict[str, Any]:
    """What a browser makes of the page, in both themes and with each heat map, as a script in it finds."""
    script = PROBE.replace("METRICS", json.dumps(METRICS)).replace("\\\\n", "\\n")
    assert "script-src" not in page
    probed = re.sub(r"<meta http-equiv=.*?>", "", page).replace("</body>", f"<script>{script}</script></body>")
    (directory / "probed.html").write_text(probed, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},900"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={directory}/profile"]
    command = [str(tool("chromium")), *options, (directory / "probed.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r"<body>(\{.*\})\s*</body>", done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:]
    return json.loads(found[1])  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def seen(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    page = to_html([finding(bundle, ScratchError("needs 4 bytes", where="x"))])
    return shown(page, tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize(
    ("metric", "cells"),
    [
        pytest.param("registers", ["16", "-", "255", "-"], id="registers"),
        pytest.param("local", ["0", "-", "4.0 KiB", "-"], id="local memory"),
        pytest.param("shared", ["0", "0", "64.0 KiB", "0"], id="shared memory"),
        pytest.param("occupancy", ["100%", "-", "17%", "-"], id="occupancy"),
    ],
)
def test_each_heat_map_shows_its_numbers(seen: dict[str, Any], bundle: Bundle, metric: str, cells: list[str]) -> None:
    cells[0] = str(bundle.entries[0].cubins[0].registers) if metric == "registers" else cells[0]
    for theme in seen["themes"].values():
        shown = theme["metrics"][metric]
        assert shown["cells"] == cells
        assert len(shown["key"]) == 1


def test_greater_numbers_have_stronger_colours(seen: dict[str, Any]) -> None:
    for theme in seen["themes"].values():
        for metric in METRICS:
            colors = theme["metrics"][metric]["colors"]
            assert colors[0] != colors[2], metric
        assert theme["metrics"]["local"]["colors"][0] == theme["metrics"]["local"]["colors"][1]  # none at all
    hot = {theme["metrics"][metric]["colors"][2] for theme in seen["themes"].values() for metric in METRICS[:4]}
    assert len(hot) == 8, "each heat map has a colour of its own, in each theme"


def test_the_themes_are_light_and_dark(seen: dict[str, Any]) -> None:
    light, dark = (seen["themes"][theme]["page"] for theme in ("light", "dark"))
    assert min(light[:3]) > 200
    assert max(dark[:3]) < 50


def test_every_text_can_be_read(seen: dict[str, Any]) -> None:
    """A contrast of 4.5 is what the Web Content Accessibility Guidelines ask of text (1.4.3)."""
    for name, theme in seen["themes"].items():
        for metric in METRICS:
            contrast, text = theme["metrics"][metric]["lowest"]
            assert contrast >= 4.5, (name, metric, text)


def test_defects_are_on_top_and_nothing_is_loaded(seen: dict[str, Any]) -> None:
    assert seen["order"] == ["defects", ""]
    assert seen["loaded"] == []
    assert seen["unlabelled"] == 0
    assert not seen["wide"]


def test_a_narrow_screen_scrolls_the_table_not_the_page(bundle: Bundle, tmp_path: Path) -> None:
    assert not shown(to_html([finding(bundle)]), tmp_path, width=500)["wide"]


class _Elements(HTMLParser):
    """Counts elements, and follows which are open."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Elements()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser.found


def test_the_page_needs_no_script_and_no_network(bundle: Bundle) -> None:
    found = elements(to_html([finding(bundle)]))
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in found}
    assert not [attributes for _, attributes in found if {"src", "href", "onclick"} & attributes.keys()]
    (policy,) = (attributes["content"] for _, attributes in found if "http-equiv" in attributes)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_tables_have_captions_and_headings(bundle: Bundle) -> None:
    found = elements(to_html([finding(bundle)]))
    tags = [tag for tag, _ in found]
    assert tags.count("caption") == tags.count("table") == 2
    assert all(attributes.get("scope") in {"row", "col"} for tag, attributes in found if tag == "th")


def test_what_an_artifact_says_is_text_not_markup(bundle: Bundle) -> None:
    name = "<script>alert(1)</script>\"'&\x1b"
    defect = CorruptCubinError(name, where=name, remedy=name)
    hostile = Finding(path=name, bundles={name: bundle}, defects=[defect], advice=[])
    page = to_html([hostile])
    assert "script" not in {tag for tag, _ in elements(page)}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;\\x1b" in page


def test_inspect_writes_the_page_to_stdout(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--format", "html", str(tiny_bundle)]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert [attributes["class"] for tag, attributes in elements(page) if "badge" in str(attributes.get("class"))] == [
        "badge good",
        "badge good",
        "badge note",
    ]
