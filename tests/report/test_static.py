"""The scripts that reports and pages share, in a real browser."""

import html
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from tests.browsers import Browsers, Watched
from tonnage.jobs import Decision, Resource
from tonnage.report.figures import Figure, escaped_json, histogram

pytestmark = pytest.mark.browser
STATIC = files("tonnage.report") / "static"
PLOTLY = STATIC / "plotly-basic.min.js"

TABLE = """
<label for="words">Show</label> <input id="words" class="filter" aria-controls="jobs"> <output for="jobs"></output>
<table class="sortable" id="jobs" data-rows="rows"><thead><tr>
<th scope="col">task</th><th scope="col" class="number">memory</th></tr></thead></table>
"""


def write(path: Path, body: str, **data: object) -> str:
    """Write a page with the shared files and return its address."""
    scripts = "".join(
        f'<script type="application/json" id="{name}">{escaped_json(value)}</script>' for name, value in data.items()
    )
    code = "".join(f"<script>{(STATIC / name).read_text()}</script>" for name in ("pictures.js", "tables.js"))
    style = f"<style>{(STATIC / 'style.css').read_text()}</style>"
    plotly = f"<script>{PLOTLY.read_text()}</script>" if "picture" in body else ""
    path.write_text(f"<!doctype html><meta charset=utf-8>{style}<body><main>{body}</main>{scripts}{plotly}{code}")
    return path.as_uri()


@pytest.fixture
def figure() -> Figure:
    peaks = np.array([1e9, 1.1e9, 1.2e9, 3.8e9])
    decision = Decision(Resource.MEMORY, (1.25e9, 4e9, 64e9), "auto", 4, "because")
    return histogram(peaks, Resource.MEMORY, decision=decision, title='peaks of "a" <b>')


def names(watched: Watched) -> list[str]:
    return watched.page.locator("#jobs tbody tr:visible td:first-child").all_text_contents()


def test_a_table_is_sorted_and_filtered_by_keyboard(browsers: Browsers, tmp_path: Path) -> None:
    rows = [["b<i>", ["2 GB", 2e9]], ["a", ["900 MB", 9e8]], ["c", ["", None]]]
    watched = browsers.page(offline=True)
    watched.page.goto(write(tmp_path / "page.html", TABLE, rows=rows))
    keys = watched.page.keyboard
    keys.press("Tab")  # the filter
    keys.press("Tab")
    keys.press("Enter")
    assert names(watched) == ["a", "b<i>", "c"]
    assert watched.page.locator("th").first.get_attribute("aria-sort") == "ascending"
    keys.press("Tab")
    keys.press("Enter")
    assert names(watched) == ["b<i>", "a", "c"]  # the largest first, what is not known last
    keys.press("Enter")
    assert names(watched) == ["a", "b<i>", "c"]
    watched.page.locator("#words").press_sequentially("b 2")
    assert names(watched) == ["b<i>"]
    assert watched.page.locator("output").text_content() == "1 of 3 rows"


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_is_drawn_in_the_colours_of_the_page(
    browsers: Browsers, tmp_path: Path, figure: Figure, dark: bool
) -> None:
    watched = browsers.page(offline=True, dark=dark)
    watched.page.goto(write(tmp_path / "page.html", '<div class="picture" data-figure="one"></div>', one=figure))
    picture = watched.page.locator(".picture .main-svg").first
    picture.wait_for()
    assert watched.page.locator(".picture").get_attribute("aria-label") == 'peaks of "a" <b>'
    texts = watched.page.locator(".picture .annotation-text").all_text_contents()
    assert texts == ["first 1.25 GB", "then 4 GB", "then 64 GB →"]
    ink = "f0954a" if dark else "d9730d"
    assert watched.page.evaluate("document.querySelector('.picture').layout.annotations[0].font.color") == f"#{ink}"


def test_a_picture_follows_a_change_of_the_colour_scheme(browsers: Browsers, tmp_path: Path, figure: Figure) -> None:
    watched = browsers.page(offline=True)
    watched.page.goto(write(tmp_path / "page.html", '<div class="picture" data-figure="one"></div>', one=figure))
    watched.page.locator(".picture .main-svg").first.wait_for()
    watched.page.emulate_media(color_scheme="dark")
    watched.page.wait_for_function("document.querySelector('.picture').layout.font.color === '#e6e8eb'")


def test_what_looks_like_the_end_of_a_script_does_not_end_it(browsers: Browsers, tmp_path: Path) -> None:
    evil = "</script><script>document.title='broken'</script><!--"
    watched = browsers.page(offline=True)
    watched.page.goto(write(tmp_path / "page.html", TABLE, rows=[[evil, ["1", 1]]]))
    assert names(watched) == [evil]
    assert watched.page.title() == ""
    assert html.escape(evil) in watched.page.locator("#jobs").inner_html()[:10_000].replace("'", "&#x27;")
