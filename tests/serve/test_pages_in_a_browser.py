"""The pages in a real browser: with a mouse, with a keyboard, on a phone, in the dark, and with hostile names."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browsers import Browsers, Watched
from tests.serve.sample_archive import HOSTILE
from tests.serve.server import TOKEN, Server

pytestmark = pytest.mark.browser
PAGES = {
    "categories": "/",
    "category": "/category?name=align&machine=memory=64GB",
    "search": "/search?category=align&sort=memory",
    "compare": "/compare",
    "upload": "/upload",
    "runs": "/runs",
    "docs": "/docs",
    "login": "/login",
}


def opened(browsers: Browsers, server: Server, path: str, **options: bool) -> Watched:
    watched = browsers.page(**options)
    server.let_in(watched)
    watched.page.goto(server.url + path)
    watched.page.evaluate("window.sameVisit = true")
    return watched


def drawn(watched: Watched, resource: str) -> str:
    """Wait until a picture is drawn, and return the texts in it."""
    picture = watched.page.locator(f'.picture[data-figure="figure-{resource}"]')
    picture.locator(".annotation-text").first.wait_for()
    return " ".join(picture.locator(".annotation-text").all_text_contents())


def test_another_strategy_changes_sizes_and_pictures_in_place(browsers: Browsers, filled: Server) -> None:
    watched = opened(browsers, filled, "/category?name=align")
    page = watched.page
    before, picture = page.locator("#sizes").inner_text(), drawn(watched, "memory")
    page.select_option("#strategy", "max-seen")
    page.wait_for_function("text => document.getElementById('sizes').innerText !== text", arg=before)
    assert page.evaluate("window.sameVisit")
    assert "strategy=max-seen" in page.url
    assert "max-seen" in page.locator("#reason-memory").inner_text().lower()
    page.wait_for_function(
        "text => [...document.querySelectorAll('[data-figure=figure-memory] .annotation-text')]"
        ".map(one => one.textContent).join(' ') !== text",
        arg=picture,
    )
    assert page.locator("#objective").is_disabled()
    assert "strategy=max-seen" in str(page.locator("#take a").first.get_attribute("href"))


def test_a_machine_that_is_typed_counts_and_a_wrong_one_is_explained(browsers: Browsers, filled: Server) -> None:
    watched = opened(browsers, filled, "/category?name=merge")
    page = watched.page
    page.fill("#machine", "memory=1MB")
    page.locator("#sizes .error").wait_for()
    assert "fits nowhere" in page.locator("#sizes").inner_text()
    page.fill("#machine", "memory=99GB")
    page.get_by_text("99 GB").first.wait_for()
    assert page.evaluate("window.sameVisit")
    assert page.locator("#machine").input_value() == "memory=99GB"


def test_the_pages_work_without_scripts(browsers: Browsers, filled: Server) -> None:
    watched = browsers.page(java_script_enabled=False)
    filled.let_in(watched)
    page = watched.page
    page.goto(f"{filled.url}/category?name=align")
    page.select_option("#strategy", "max-seen")
    page.click("#choice button")
    assert "strategy=max-seen" in page.url
    assert "Max-seen of 201 jobs" in page.locator("#reason-memory").inner_text()
    page.goto(f"{filled.url}/search")
    page.fill("#category", "merge")
    page.click("#search button")
    assert "of 100 jobs" in page.locator("output").inner_text()


def test_a_search_is_sorted_paged_and_opened(browsers: Browsers, filled: Server, artefacts: Path) -> None:
    watched = opened(browsers, filled, "/search")
    page = watched.page
    page.fill("#category", "align")
    page.fill("#least", "3GB")
    page.press("#least", "Enter")
    page.get_by_role("link", name="Memory").click()
    assert page.locator('th[aria-sort="descending"]').inner_text() == "Memory"
    cells = page.locator("#jobs tbody tr td:nth-child(3)").all_inner_texts()
    amounts = [float(text.split()[0]) for text in cells]
    assert amounts == sorted(amounts, reverse=True)
    page.get_by_role("link", name="Memory").click()
    assert page.locator('th[aria-sort="ascending"]').inner_text() == "Memory"
    first = page.locator("#jobs summary").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    assert page.locator("#jobs summary").first.inner_text() != first
    page.locator("#jobs summary").first.click()
    assert "/data/all.fa" in page.locator("#jobs details").first.inner_text()
    page.screenshot(path=artefacts / "search-opened.png", full_page=True)
    assert page.locator("#least").input_value() == "3GB"


def test_what_is_found_can_be_downloaded(browsers: Browsers, filled: Server) -> None:
    page = opened(browsers, filled, "/search?category=merge").page
    with page.expect_download() as download:
        page.get_by_role("link", name="All as CSV").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 101
    page.goto(f"{filled.url}/category?name=merge")
    for tool, word in (("Nextflow", "withName"), ("Snakemake", "merge"), ("sbatch", "--mem="), ("DAGMan", "merge")):
        with page.expect_download() as download:
            page.get_by_role("link", name=tool).click()
        assert word in Path(download.value.path()).read_text(), tool


def test_a_log_is_uploaded_and_its_category_opened(browsers: Browsers, served: Server, tmp_path: Path) -> None:
    log = tmp_path / "jobs.csv"
    log.write_text("task,category,memory (MB),wall_time (s)\n" + "".join(f"t{n},up,{n},9\n" for n in range(100, 120)))
    watched = opened(browsers, served, "/upload")
    page = watched.page
    page.set_input_files("#file", log)
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Upload").click()
    page.locator("#sources td").first.wait_for()
    assert "20" in page.locator("#sources").inner_text()
    page.get_by_role("link", name="Categories", exact=True).click()
    page.get_by_role("link", name="up", exact=True).click()
    assert "20 stored jobs" in page.locator("main").inner_text()


def test_a_wrong_token_is_said_in_the_page(browsers: Browsers, served: Server, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("task,memory (MB)\na,1\n")
    watched = opened(browsers, served, "/upload")
    watched.page.set_input_files("#file", tmp_path / "jobs.csv")
    watched.page.fill("#token", "wrong")
    watched.page.get_by_role("button", name="Upload").click()
    watched.page.locator("#problem").wait_for()
    assert "the token is wrong" in watched.page.locator("#problem").inner_text()
    watched.errors = [one for one in watched.errors if "401" not in one]


def test_the_link_that_a_server_prints_logs_in_and_keeps_the_token_to_itself(
    browsers: Browsers, filled: Server
) -> None:
    watched = browsers.page()
    page = watched.page
    page.goto(f"{filled.url}/login#token={TOKEN}")
    page.get_by_role("heading", name="Categories").wait_for()
    assert page.url == f"{filled.url}/"
    page.go_back()
    assert TOKEN not in page.url
    assert not any(TOKEN in address.partition("#")[0] for address in watched.requests)
    page.goto(f"{filled.url}/compare")
    assert page.url == f"{filled.url}/compare"


def test_a_person_without_a_link_logs_in_with_the_token(browsers: Browsers, filled: Server) -> None:
    page = browsers.page(java_script_enabled=False).page
    page.goto(f"{filled.url}/search?category=merge")
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Log in").click()
    assert page.url == f"{filled.url}/search?category=merge"
    assert "of 100 jobs" in page.locator("output").inner_text()


def test_everything_is_reached_with_the_keyboard(browsers: Browsers, filled: Server) -> None:
    watched = opened(browsers, filled, "/")
    page = watched.page

    def press_until(selector: str, key: str = "Tab", most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press(key)
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"nobody sees that {selector} has the focus"
                return
        raise AssertionError(f"{selector} is not reached")

    press_until(".skip")
    page.keyboard.press("Enter")
    press_until('a[href="/category?name=align"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/category?name=align")
    drawn(watched, "memory")
    press_until("#strategy")
    before = page.locator("#sizes").inner_text()
    page.keyboard.type("max-s")
    page.wait_for_function("text => document.getElementById('sizes').innerText !== text", arg=before)
    assert page.evaluate("document.activeElement.id") == "strategy"
    press_until("#machine")
    page.keyboard.type("memory=77GB")
    page.get_by_text("77 GB").first.wait_for()
    press_until('a[href^="/search?category=align"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?category=align*")
    press_until("#jobs summary")
    page.keyboard.press("Enter")
    assert page.locator("#jobs details[open]").count() == 1


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone_and_the_dark(browsers: Browsers, filled: Server, artefacts: Path, name: str) -> None:
    for kind, options in {"desktop": {}, "phone": {"phone": True}, "dark": {"dark": True}}.items():
        watched = opened(browsers, filled, PAGES[name], **options)
        if name == "category":
            drawn(watched, "memory")
        assert not watched.scrolls_sideways(), kind
        red, green, blue = watched.page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
        assert (max(red, green, blue) < 80) == (kind == "dark")
        assert all(address.startswith(filled.url) for address in watched.requests)
        watched.page.screenshot(path=artefacts / f"{name}-{kind}.png")
        watched.context.close()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/?name={quote(HOSTILE)}",
        f"/category?name={quote(HOSTILE)}",
        f"/category?name=align&machine={quote(HOSTILE)}",
        f"/category?name=align&workflow={quote(HOSTILE)}",
        f"/category?name={quote(HOSTILE)}&workflow={quote(HOSTILE)}&strategy=max-seen",
        "/search",
        f"/search?category={quote(HOSTILE)}&user={quote(HOSTILE)}",
        f"/search?where={quote(HOSTILE)}",
        f"/search?{quote(HOSTILE)}=1",
        f"/search?outcome={quote(HOSTILE)}",
        f"/compare?category={quote(HOSTILE)}&machine={quote(HOSTILE)}",
        f"/run?id={quote(HOSTILE)}",
        f"/login?next={quote(HOSTILE)}",
        f"/{quote(HOSTILE)}",
    ],
)
def test_hostile_names_stay_texts(browsers: Browsers, filled: Server, path: str) -> None:
    watched = opened(browsers, filled, path)
    page = watched.page
    for one in page.locator("#jobs summary").all():
        one.click()
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")  # what would run, ran
    assert page.title() != "hacked"
    assert page.locator("main img, main script:not([type])").count() == 0
    if path in ("/", "/search"):
        assert "<script>document.title" in page.locator("main").inner_text()
    watched.errors = [one for one in watched.errors if not re.search(r"status of 4\d\d", one)]
