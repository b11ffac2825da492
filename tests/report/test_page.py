"""A report in a real browser, opened from disk: what it shows, with no network, and what it does not let in."""

import csv
from pathlib import Path

import pytest

from tests.browsers import Browsers, Watched
from tests.command_line import CommandLine
from tests.report.journals import GB, Try, write_run
from tests.report.runs import made_place, run_it
from tonnage.jobs import Outcome, Resource
from tonnage.run.folders import RunFolder
from tonnage.workflow import read

pytestmark = pytest.mark.browser
EVIL = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "<a href='javascript:alert(4)'>here</a>",
    "{{ 7 * 7 }} &lt;b&gt; <!--",
)
FILE = "<img src=x onerror=alert(1)>.html"
# plotly's bundle draws only some kinds of traces; any other silently becomes a scatter.
DRAWN_AS_ASKED = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap((div) =>
    div.data.filter((one, place) => one.type !== div._fullData[place].type).map((one) => one.type))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a real run."""
    place = made_place(tmp_path_factory.mktemp("report"))
    run_it(place)
    path = place.folder / "report.html"
    CommandLine(place.folder, place.environment)("report", "-o", path)
    return path


def opened(browsers: Browsers, path: Path, **options: bool) -> Watched:
    """Open a report without a network, and draw all of it."""
    watched = browsers.page(offline=True, **options)
    watched.page.add_init_script("window.alerted = 0; window.alert = () => { window.alerted += 1; };")
    watched.page.goto(path.as_uri())
    watched.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    watched.page.evaluate("drawAll()")
    pictures = watched.page.locator(".picture").count()
    watched.page.wait_for_function(f"document.querySelectorAll('.picture .main-svg').length >= {pictures}")
    assert watched.page.evaluate(DRAWN_AS_ASKED) == []
    return watched


def test_a_report_opens_from_disk_without_a_network_and_asks_nobody(
    browsers: Browsers, report: Path, artefacts: Path
) -> None:
    watched = opened(browsers, report)
    assert watched.requests == [report.as_uri()]
    names = watched.page.locator("h3").all_text_contents()
    for name in ("Running tasks", "Every attempt", "Memory", "Cores", "Disk", "Critical path", "The workflow"):
        assert name in names
    assert watched.page.locator(".picture").first.get_attribute("aria-label")
    watched.page.screenshot(path=artefacts / "report.png", full_page=True)


@pytest.mark.parametrize("dark", [False, True])
def test_a_report_can_be_read_on_a_phone_and_in_the_dark(
    browsers: Browsers, report: Path, artefacts: Path, dark: bool
) -> None:
    watched = opened(browsers, report, phone=True, dark=dark)
    assert not watched.scrolls_sideways()
    paper = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(251, 250, 248)")
    ink = watched.page.evaluate("document.querySelector('.js-plotly-plot').layout.font.color")
    assert ink == ("#e6e8eb" if dark else "#1d2127")
    watched.page.screenshot(path=artefacts / f"report-phone-{'dark' if dark else 'light'}.png", full_page=True)


def test_a_report_prints_on_white_with_everything_open_and_within_the_paper(
    browsers: Browsers, report: Path, artefacts: Path
) -> None:
    watched = opened(browsers, report, dark=True)
    watched.page.set_viewport_size({"width": 718, "height": 1000})  # A4 with its usual margins
    watched.page.emulate_media(media="print")
    watched.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    watched.page.wait_for_function("document.querySelector('.js-plotly-plot').layout.font.color === '#000'")
    assert watched.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert watched.page.locator("details:not([open])").count() == 0
    assert not watched.page.locator("nav").is_visible()
    wide = "[...document.querySelectorAll('.picture, table')].filter((one) => one.getBoundingClientRect().right > 720)"
    assert watched.page.evaluate(f"{wide}.map((one) => one.id || one.ariaLabel)") == []
    drawn = "[...document.querySelectorAll('.pair .picture')].every((one) => one._fullLayout.width <= 330)"
    watched.page.wait_for_function(drawn)
    watched.page.screenshot(path=artefacts / "report-print.png", full_page=True)
    watched.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert len(watched.page.pdf(format="A4")) > 10_000


def rows_of(watched: Watched, column: int) -> list[str]:
    return watched.page.locator(f"#task-table tbody tr:visible td:nth-child({column})").all_text_contents()


def test_the_table_is_sorted_and_filtered_by_keyboard(browsers: Browsers, report: Path) -> None:
    watched = opened(browsers, report)
    page = watched.page
    header = page.locator("#task-table th").all_text_contents()
    task, memory = header.index("task") + 1, header.index("memory used") + 1
    everything = rows_of(watched, task)
    page.locator("#words").focus()
    page.keyboard.press("Tab")  # the frame, which scrolls
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert rows_of(watched, task) == sorted(everything)
    value = (
        "[...document.querySelectorAll('#task-table tbody td:nth-child(%d)')].map((one) => Number(one.dataset.value))"
    )
    page.locator(f"#task-table th:nth-child({memory}) button").press("Enter")
    amounts = page.evaluate(value % memory)
    assert amounts == sorted(amounts, reverse=True)
    page.locator("#words").press_sequentially("join done")
    assert rows_of(watched, task) == ["whole"]
    assert page.locator("output").text_content() == f"1 of {len(everything)} rows"


def test_colours_by_label_can_be_chosen_by_keyboard(
    browsers: Browsers, tmp_path: Path, command_line: CommandLine
) -> None:
    log = tmp_path / "jobs.csv"
    log.write_text("task,category,label,memory,wall_time\na,x,one,1GB,10\nb,x,two,2GB,20\n")
    command_line("report", log, "-o", "r.html")
    watched = opened(browsers, tmp_path / "r.html")
    assert watched.page.locator("#peaks-1").is_visible()
    watched.page.locator("fieldset.switch input").first.focus()
    watched.page.keyboard.press("ArrowRight")
    assert watched.page.locator("#peaks-2").is_visible()
    assert not watched.page.locator("#peaks-1").is_visible()
    names = watched.page.evaluate("document.querySelector('#peaks-2 .picture').data.map((one) => one.name)")
    assert sorted(names) == ["one", "two"]


def must_be_text(watched: Watched) -> None:
    """Fail where something of the user's became a part of the page."""
    dialogs: list[str] = []
    watched.page.on("dialog", lambda one: dialogs.append(one.message))
    for one in watched.page.locator(".picture .hoverlayer").all()[:0]:
        one.hover()
    count = (
        "document.querySelectorAll('main img, header img, svg image, [onerror], [onload], a[href^=javascript]').length"
    )
    assert watched.page.evaluate(count) == 0
    linked = "[...document.querySelectorAll('svg a')].filter((one) => /script/i.test(one.outerHTML)).length"
    assert watched.page.evaluate(linked) == 0
    assert watched.page.evaluate("document.scripts.length") == watched.page.evaluate(
        "[...document.scripts].filter((one) => one.type === 'application/json').length + 3"
    )
    assert watched.page.evaluate("window.alerted") == 0
    watched.must_be_quiet()


def test_names_of_a_run_its_tasks_and_its_categories_stay_text(
    browsers: Browsers, tmp_path: Path, command_line: CommandLine
) -> None:
    tasks = [(f"{one} {place}", EVIL[-place]) for place, one in enumerate(EVIL)]
    tries = [
        Try(place, 1, place, place + 5, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY, note=EVIL[place])
        for place in range(len(EVIL))
    ]
    tries += [Try(place, 2, place + 5, place + 9, given=4 * GB) for place in range(len(EVIL) - 1)]
    run = write_run(tmp_path, tasks, tries, id=f"{EVIL[0]}-20231114-221320", name=EVIL[1], workflow=EVIL[2][2:])
    path = tmp_path / "report.html"
    command_line("report", run.path, "-o", path)
    watched = opened(browsers, path)
    must_be_text(watched)
    assert watched.page.locator("h1").text_content() == run.id
    header = watched.page.locator("#task-table th").all_text_contents()
    assert {f"{one} {place}" for place, one in enumerate(EVIL)} == set(rows_of(watched, header.index("task") + 1))
    assert set(EVIL) <= set(rows_of(watched, header.index("category") + 1))


def test_commands_and_files_of_a_log_stay_text(browsers: Browsers, tmp_path: Path, command_line: CommandLine) -> None:
    log = tmp_path / FILE
    with log.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "category", "label", "command", "host", "memory", "wall_time", "started", "ended"])
        for place, one in enumerate(EVIL):
            writer.writerow([one, one, one, f"run {one}", one, "1GB", "5", 1700000000 + place, 1700000005 + place])
    path = tmp_path / "report.html"
    command_line("report", log, "--from", "csv", "-o", path)
    watched = opened(browsers, path)
    must_be_text(watched)
    assert watched.page.locator("h1").text_content() == FILE
    header = watched.page.locator("#task-table th").all_text_contents()
    assert {f"run {one}" for one in EVIL} == set(rows_of(watched, header.index("command") + 1))


@pytest.mark.parametrize("many", [1, 600])
def test_small_and_large_workflows_are_drawn(
    browsers: Browsers, tmp_path: Path, command_line: CommandLine, many: int
) -> None:
    rules = "".join(f"out{place}:\n\techo > out{place}\n" for place in range(many))
    (tmp_path / "w.makeflow").write_text(f"CATEGORY=first\n{rules}CATEGORY=last\nend: out0\n\techo > end\n")
    workflow = read(tmp_path / "w.makeflow")
    tasks = [(task.name, task.category) for task in workflow.tasks]
    tries = [Try(place, started=place, ended=place + 2) for place in range(len(tasks))]
    facts = {"workflow": "w.makeflow", "checksum": workflow.checksum}
    run: RunFolder = write_run(tmp_path, tasks, tries, **facts)
    command_line("report", run.path, "-o", "r.html")
    watched = opened(browsers, tmp_path / "r.html")
    assert watched.page.locator("#workflow .picture .main-svg").first.is_visible()
    labels = watched.page.locator("#workflow [data-figure]").last.get_attribute("aria-label") or ""
    assert ("categories" in labels) == (many == 600)
