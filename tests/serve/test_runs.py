"""The pages of runs: one that is under way, one that is done, one that only the archive knows."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browsers import Browsers
from tests.deadlines import HANGS
from tests.report.journals import GB, Try, many, write_run
from tests.run.cli_runs import Place
from tests.serve.server import Server
from tests.waiting import until
from tonnage.archive import Archive, import_source
from tonnage.jobs import Amounts, Attempt, Outcome, Resource
from tonnage.logs.sources import Source

WAIT = "until [ -e {go} ]; do sleep 0.05; done"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "w").mkdir()
    return Place(folder / "w")


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    folder = place.folder.parent
    with Server(f"sqlite:///{folder}/served.db", folder=folder, runs=(place.folder,)) as server:
        yield server


@pytest.mark.browser
def test_the_page_of_a_run_keeps_up_with_it_until_it_ends(
    server: Server, place: Place, browsers: Browsers, artefacts: Path
) -> None:
    rules = "".join(f"out{one}:\n\t{WAIT.format(go=f'go{one}')}; echo > out{one}\n" for one in range(3))
    place.write("live.makeflow", f"CATEGORY=wait\n{rules}CATEGORY=fail\nbad: out0\n\techo oh no >&2; exit 7\n")
    with place.begin("run", "live.makeflow", "--quiet", "--json") as going:
        try:
            until(lambda: place.runs() and len(place.rows()) == 3)
            id = place.runs()[0].id
            watched = browsers.page()
            server.let_in(watched)
            page = watched.page
            page.goto(f"{server.url}/runs")
            page.get_by_role("link", name=id).click()
            page.evaluate("window.stayed = true")
            page.get_by_text("live is under way").wait_for()
            page.locator("#running tbody tr").nth(2).wait_for()
            page.locator(".picture .main-svg").first.wait_for()
            page.screenshot(path=artefacts / "run-under-way.png", full_page=True)
            drawn = "JSON.stringify(document.querySelector('[data-figure=figure-running]').data.map((one) => one.name))"
            assert page.evaluate(drawn) == '["wait"]'
            (place.folder / "go0").touch()
            page.locator("#failed", has_text="exit status 7").wait_for()
            assert page.locator("#failed th", has_text="bad").count() == 1
            page.locator("#running tbody tr").nth(1).wait_for()
            page.wait_for_function(f'{drawn} === \'["wait","fail"]\'')
            assert "of 4, 1 failed" in " ".join((page.locator("#facts").text_content() or "").split())
        finally:
            for one in range(3):
                (place.folder / f"go{one}").touch()
        page.get_by_text("live is not finished").wait_for()
        page.wait_for_function("document.title.startsWith('3 of 4')")
        assert page.locator("#running tbody tr").count() == 0
        assert page.evaluate("window.stayed") is True  # it was never loaded again
        asked = len(watched.requests)
        page.wait_for_timeout(2500)
        assert len(watched.requests) == asked  # and asks no more
        going.communicate(timeout=HANGS)
    facts = server.client.get("/api/run", params={"id": id}).json()
    assert (facts["state"], facts["done"], facts["failures"]) == ("not finished", 3, 1)
    assert facts["failed"][0]["task"] == "bad"


@pytest.mark.browser
def test_the_report_of_a_run_is_downloaded_and_opens_without_a_network(
    server: Server, place: Place, browsers: Browsers, tmp_path: Path
) -> None:
    run = write_run(place.folder, [("a", "align")], [Try(0)], id="done-20231114-221320", finished="1")
    watched = browsers.page()
    server.let_in(watched)
    page = watched.page
    page.goto(f"{server.url}/run?id={run.id}")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download its report").click()
    assert waiting.value.suggested_filename == f"{run.id}.html"
    waiting.value.save_as(tmp_path / "report.html")
    offline = browsers.page(offline=True)
    offline.page.goto((tmp_path / "report.html").as_uri())
    assert offline.page.locator("h1").text_content() == run.id
    assert "1 of 1 tasks done" in (offline.page.locator(".lead").text_content() or "")


def test_the_page_of_a_run_shows_failed_tasks_with_their_commands_and_output(server: Server, place: Place) -> None:
    place.write("list.txt", "true\n" + "sh -c 'echo \"<b>why\" >&2; exit 3'\n" * 5)
    place.call("run", "list.txt", "--quiet")
    id = place.runs()[0].id
    facts = server.client.get("/api/run", params={"id": id}).json()
    assert [one["line"] for one in facts["failed"]] == [2, 3, 4]
    assert facts["more_failed"] == ["2 more tasks of echo failed: exit status 3"]
    page = server.client.get("/run", params={"id": id}).text
    for text in ("line 2: sh -c", "exit status 3", "&lt;b&gt;why\n", "log: /", facts["more_failed"][0]):
        assert text in page


def attempts(run: str) -> list[Attempt]:
    """Return what came of a run of two tasks, of which one was tried twice."""
    tries = [(EVIL, 1, Outcome.EXHAUSTED), (EVIL, 2, Outcome.DONE), ("b", 1, Outcome.DONE)]
    return [
        Attempt(
            native_id=f"{run}:{place}",
            run=run,
            task=task,
            number=number,
            category=task,
            started=100.0 + 10 * place,
            ended=110.0 + 10 * place,
            outcome=outcome,
            exhausted=Resource.MEMORY if outcome is Outcome.EXHAUSTED else None,
            allocated=Amounts.of(memory=2 * GB, cores=1),
            used=Amounts.of(memory=GB),
        )
        for place, (task, number, outcome) in enumerate(tries)
    ]


ELSEWHERE = f"elsewhere {EVIL}"


@pytest.fixture(scope="module")
def elsewhere(server: Server) -> str:
    """A run that only the archive knows."""
    with Archive.open(server.archive) as archive:
        import_source(archive, Source("made", "made", "tonnage", iter(attempts(ELSEWHERE))))
    return ELSEWHERE


def test_a_run_that_only_the_archive_knows_has_a_report(server: Server, elsewhere: str) -> None:
    run = elsewhere
    facts = server.client.get("/api/run", params={"id": run}).json()
    assert (facts["tasks"], facts["done"], facts["attempts"], facts["retries"]) == (2, 2, 3, 1)
    assert facts["resources"]["memory"]["waste_fraction"] == pytest.approx(1 - 20 / 60)
    answer = server.client.get("/api/report", params={"id": run})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="elsewhere-img-src-x-onerror-alert-1.html"'
    assert "&lt;img src=x" in answer.text
    assert "<img" not in answer.text.split("<script")[0]


@pytest.mark.browser
def test_a_run_that_only_the_archive_knows_has_a_page(server: Server, elsewhere: str, browsers: Browsers) -> None:
    watched = browsers.page()
    server.let_in(watched)
    watched.page.goto(f"{server.url}/runs")
    watched.page.get_by_label("A run in the archive").fill(elsewhere)
    watched.page.keyboard.press("Enter")
    watched.page.get_by_text("in the archive").wait_for()
    assert watched.page.locator("h1").text_content() == elsewhere
    assert watched.page.locator("main img").count() == 0


@pytest.mark.parametrize("id", ["nothing", "../../etc/passwd", "..", "/etc", EVIL, "a\0b", "last"])
def test_what_is_no_run_is_not_found_whatever_it_is_called(server: Server, id: str) -> None:
    for path in ("/api/run", "/api/report", "/run"):
        answer = server.client.get(f"{path}?id={quote(id)}")
        assert answer.status_code in (404, 422), answer.text
        assert "Traceback" not in answer.text


def test_a_run_in_which_nothing_ran_yet_has_a_page_but_no_report(server: Server, place: Place) -> None:
    run = write_run(place.folder, [("a", "align")], [], id="new-20231114-221321")
    assert server.client.get("/run", params={"id": run.id}).status_code == 200
    answer = server.client.get("/api/report", params={"id": run.id})
    assert (answer.status_code, answer.json()["error"]) == (422, "there are no attempts to report on")


def test_the_page_of_a_run_with_many_attempts_holds_no_more_than_that_of_a_small_one(
    server: Server, place: Place
) -> None:
    sizes = []
    for attempts in (2_000, 20_000):
        run = many(place.folder / str(attempts), attempts)
        target = place.folder / ".tonnage" / "runs" / f"many-{attempts}"
        run.path.rename(target)
        sizes.append(len(server.client.get("/run", params={"id": target.name}).content))
        facts = server.client.get("/api/run", params={"id": target.name}).json()
        assert (facts["attempts"], facts["done"]) == (attempts, attempts)
        json.dumps(facts, allow_nan=False)
    assert sizes[1] < 1.1 * sizes[0]


def test_runs_are_listed_the_newest_first(server: Server, place: Place) -> None:
    found = server.client.get("/api/runs").json()["runs"]
    begun = [one["begun"] for one in found]
    assert begun == sorted(begun, reverse=True)
    assert {one["id"] for one in found} >= {run.id for run in place.runs()}


@pytest.mark.browser
def test_a_phone_shows_the_page_of_a_run_without_scrolling_sideways(
    server: Server, place: Place, browsers: Browsers, artefacts: Path
) -> None:
    run = write_run(place.folder, [("a", "align")], [Try(0)], id="phone-20231114-221320", finished="1")
    watched = browsers.page(phone=True, dark=True)
    server.let_in(watched)
    watched.page.goto(f"{server.url}/run?id={run.id}")
    watched.page.locator(".picture .main-svg").first.wait_for()
    assert not watched.scrolls_sideways()
    watched.page.screenshot(path=artefacts / "run-phone-dark.png", full_page=True)
