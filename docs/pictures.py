"""Draw the pictures of the documentation again: python docs/pictures.py.

Those of pages need Chromium; they show the jobs that this file makes up, in an archive that is gone afterwards.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import numpy as np
from playwright.sync_api import sync_playwright
from rich.console import Console

from tonnage.cli import show
from tonnage.workflow import read

HERE = Path(__file__).resolve().parent
PAGES = {
    "category": "/category?name=align&machine=cores=16,memory=64GB",
    "search": "/search?category=align&sort=memory",
    "upload": "/upload",
}
MACHINE = "cores=12,memory=1GB"
KINDS = {  # how many jobs, their usual memory in MB, its spread, how many are far larger, and what users ask for
    "align": (900, 2600, 0.25, 0.18, 16),
    "call-variants": (420, 5200, 0.35, 0.3, 16),
    "sort": (900, 900, 0.2, 0, 8),
    "mark-duplicates": (380, 3400, 0.15, 0.1, 16),
    "merge": (60, 13000, 0.3, 0, 64),
    "qc-report": (900, 220, 0.1, 0, 4),
}


def draw_terminal() -> None:
    """Draw `tonnage show` of the example workflow."""
    workflow = read(HERE.parent / "examples" / "kmers" / "kmers.dag")
    console = Console(record=True, width=76, highlight=False, file=Path("/dev/null").open("w"))
    console.print("$ tonnage show examples/kmers/kmers.dag\n", style="bold")
    show.draw(workflow, console)
    console.save_svg(str(HERE / "images" / "show.svg"), title="tonnage show")


def draw_pages() -> None:
    """Draw pages of `tonnage serve`."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        log = Path(folder) / "genomes.csv"
        log.write_text(made_up())
        tonnage = [sys.executable, "-m", "tonnage"]
        archive = ["--archive", f"{folder}/archive.db"]
        subprocess.run([*tonnage, "archive", "import", str(log), *archive], check=True, capture_output=True)
        serving = subprocess.Popen(
            [*tonnage, "serve", "--port", "0", "--token-file", f"{folder}/token", "--runs", folder, *archive],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            address = re.findall(r"http://\S+:\d+", next(serving.stdout or iter(())))[0]
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1180, "height": 900})
            page.goto(f"{address}/login#token={Path(folder, 'token').read_text().strip()}")
            page.wait_for_url(f"{address}/")
            for name, path in PAGES.items():
                page.goto(address + path)
                page.wait_for_timeout(1500)  # until all is drawn
                page.screenshot(path=HERE / "images" / f"{name}.png")
            with running(folder, [*tonnage, "run", "survey.mf", "--machine", MACHINE, "--quiet", *archive]):
                page.goto(f"{address}/runs")
                page.click("main table a")
                page.wait_for_timeout(6000)  # until it has something to show
                page.screenshot(path=HERE / "images" / "run.png")
            browser.close()
        finally:
            serving.terminate()
            serving.wait()


@contextmanager
def running(folder: str, words: list[str]) -> Iterator[None]:
    """Run the survey of the demo meanwhile."""
    survey = [sys.executable, str(HERE.parent / "examples" / "survey" / "survey.py"), folder]
    subprocess.run(survey, check=True, capture_output=True)
    run = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not list(Path(folder, ".tonnage", "runs").glob("*/journal.db")):
            sleep(0.2)
        sleep(4)
        yield
    finally:
        run.terminate()
        run.wait()


def made_up() -> str:
    """Return a log of jobs such as a genome project has."""
    draw = np.random.default_rng(7)
    used = "memory (MB),disk (MB),cores,wall_time (s)"
    lines = [f"task,category,workflow,user,command,{used},requested_memory (MB),outcome,ended"]
    for kind, (count, usual, spread, large, asked) in KINDS.items():
        for number in range(count):
            memory = usual * draw.lognormal(0, spread) * (2.4 if draw.random() < large else 1)
            disk, seconds = usual * draw.lognormal(-0.7, 0.4), draw.lognormal(6, 0.5) * (usual / 2000) ** 0.5
            cores, user = draw.choice([1, 2, 3, 4], p=[0.1, 0.2, 0.3, 0.4]), draw.choice(["ada", "grace", "lin"])
            outcome = "failed" if draw.random() < 0.01 else "done"
            ended = np.datetime64("2026-11-14T08:00:00") + int(97 * len(lines))
            command = f"{kind} --threads 4 /data/sample{number:04}.bam"
            amounts = f"{memory:.0f},{disk:.0f},{cores},{seconds:.0f},{asked * 1000}"
            lines.append(f"{kind}-{number:04},{kind},genomes,{user},{command},{amounts},{outcome},{ended}Z")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    draw_terminal()
    draw_pages()
