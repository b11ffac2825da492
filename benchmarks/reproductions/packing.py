"""The published figures on packing workflows, each next to ours (Hataishi et al., GLUME).

All replays go through ``tonnage replay pack --json``, with the authors' own workflows and 289 submissions. The paper
caps the batch jobs of a workflow that run; here, as in the authors' code, those that wait or run are capped. Of the
paper's four logs two are here, and eleven of its twelve workflows of each length. Needs that data: $TONNAGE_DATA, else
../shared/data. Run it with the project's Python: ``.venv/bin/python benchmarks/reproduce packing``.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

DATA = Path(os.environ.get("TONNAGE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
LENGTHS = {"short": "360000", "medium": "1800000", "long": "3600000"}
"""Sequential seconds of the workflows, as in the names of their files."""
STRATEGIES = ("per-task", "one-job", "level-by-level", "zhang", "zhang-improved", "glume")
LOGS = {"KTH": "kth-sp2.swf.gz", "SDSC": "sdsc-sp2.swf.gz"}
TABLE_2 = {  # wins/losses of GLUME beyond 5 % of 48: short, medium, long
    "accurate": {
        "per-task": ("14/18", "40/0", "37/0"),
        "level-by-level": ("22/6", "36/1", "35/0"),
        "one-job": ("9/4", "10/1", "5/0"),
        "zhang": ("5/18", "17/1", "9/0"),
    },
    "real": {
        "per-task": ("18/19", "27/8", "37/0"),
        "level-by-level": ("21/10", "33/1", "34/0"),
        "one-job": ("17/6", "17/1", "9/0"),
        "zhang": ("13/20", "10/11", "14/0"),
    },
}
FIGURES_5_AND_6 = {  # GLUME against Zhang, medium workflows: wins/losses of 12, the most that each gains
    ("KTH", "accurate"): "8/2, +36.6%, -1.5%",
    ("SDSC", "accurate"): "9/3, +55.1%, -0.5%",
    ("KTH", "real"): "9/0, +47.6%, never",
    ("SDSC", "real"): "1/11, not said, -55.3%",
}
Rows: TypeAlias = list[dict[str, Any]]
Tables: TypeAlias = dict[tuple[str, str, str], Rows]
"""Wins and losses, by log, requests and length."""


def line(what: str, published: object, ours: object) -> None:
    """Print one figure."""
    print(f"  {what:<58} {published!s:>24} {ours!s:>24}", flush=True)


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}")
    line("", "published", "ours")


def replay(pattern: str, log: str, *options: str) -> dict[str, Any]:
    """Run the command line on the workflows of a pattern."""
    files = sorted(map(str, (DATA / "workflows" / "glume").glob(pattern)))
    words = ["replay", "pack", *files, "--queue", str(DATA / "queues" / LOGS[log]), "--json", *options]
    done = subprocess.run([sys.executable, "-m", "tonnage", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tonnage {' '.join(words)} failed\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def against(rows: Rows, rival: str, strategy: str = "glume") -> dict[str, Any]:
    """Return how one strategy compares with another."""
    return next(row for row in rows if row["strategy"] == strategy and row["rival"] == rival)


def beats(row: dict[str, Any]) -> str:
    """Return all wins and losses, and the largest of each."""
    return f"{row['wins_any']}/{row['losses_any']}, {row['best']:+.1%}, {min(0.0, row['worst']):+.1%}"


def whole(logs: tuple[str, ...], sizes: str, often: tuple[str, ...]) -> Tables:
    """Replay everything, and return how long the whole experiment on KTH takes."""
    print("Playing each log with accurate and real requests, at most 16 batch jobs in the system")
    tables: Tables = {}
    for log in logs:
        for requests in TABLE_2:
            begin = perf_counter()
            count = 0
            for length, seconds in LENGTHS.items():
                options = ("--requests", requests, "--strategies", ",".join(STRATEGIES), *often)
                found = replay(f"*_{sizes}_{seconds}.dax", log, *options)
                tables[log, requests, length] = found["table"]
                count += len(found["results"]) // len(STRATEGIES)
                submissions = found["results"][0]["submissions"]
            work = f"{count} workflows x {submissions} submissions x {len(STRATEGIES)} strategies"
            took = perf_counter() - begin
            cores = os.cpu_count() or 1
            print(f"  {log}, {requests}: {work} in {took:.0f} s on {cores} cores (to be below 900)", flush=True)
    return tables


def medium(tables: Tables) -> None:
    """Figs. 5 and 6: medium workflows."""
    title("GLUME against Zhang, medium workflows: wins/losses of any size, the largest win and loss (Figs. 5 and 6)")
    for (log, requests), published in FIGURES_5_AND_6.items():
        if (log, requests, "medium") in tables:
            rows = tables[log, requests, "medium"]
            count = against(rows, "zhang")["workflows"]
            line(f"{log}, {requests} (12 workflows, here {count})", published, beats(against(rows, "zhang")))
            line(f"{log}, {requests}: against zhang-improved", "-", beats(against(rows, "zhang-improved")))


def losses(tables: Tables) -> None:
    """Losses beyond 5 % with medium and long workflows on KTH."""
    title("GLUME's losses beyond 5%, medium and long workflows together, KTH, accurate requests (goal: at most 1)")
    for rival in STRATEGIES[:-1]:
        count = sum(against(tables["KTH", "accurate", length], rival)["losses"] for length in ("medium", "long"))
        line(f"against {rival}", "-", count)


def per_task(sizes: str, often: tuple[str, ...]) -> None:
    """Figs. 2 and 3: one job per task against Zhang, under a high and a low cap."""
    title(f"KTH, accurate, *-{sizes}-*: of 12 workflows, against Zhang wins/losses (Figs. 2 and 3, which are *-250-*)")
    for cap, published in ((128, "9/3"), (16, "3/9")):
        options = ("--strategies", "per-task,one-job,zhang", "--max-submitted", str(cap), *often)
        rows = replay(f"*_{sizes}_*.dax", "KTH", *options)["table"]
        row = against(rows, "zhang", "per-task")
        line(f"at most {cap} in the system: per-task", published, f"{row['wins_any']}/{row['losses_any']}")
        row = against(rows, "zhang", "one-job")
        line(
            f"at most {cap} in the system: one-job",
            "9/3" if cap == 16 else "-",
            f"{row['wins_any']}/{row['losses_any']}",
        )


def table_2(tables: Tables) -> None:
    """Table 2, for the available logs."""
    logs = tuple(dict.fromkeys(log for log, _, _ in tables))
    title(f"Table 2: wins/losses of GLUME beyond 5%: of 48 (four logs), and of what is here: {' + '.join(logs)}")
    for requests, rivals in TABLE_2.items():
        for rival, published in rivals.items():
            for length, cell in zip(LENGTHS, published, strict=True):
                each = [against(tables[log, requests, length], rival) for log in logs]
                ours = " + ".join(f"{row['wins']}/{row['losses']}" for row in each)
                of = sum(row["workflows"] for row in each)
                line(f"{requests}, {length}, {rival}", f"{cell} of 48", f"{ours} of {of}")


def not_shown(tables: Tables) -> None:
    """Findings of the paper, and whether they are confirmed here."""
    print("\nWhat the paper reports besides, and whether it shows here")
    if ("SDSC", "real", "medium") in tables:
        row = against(tables["SDSC", "real", "medium"], "zhang")
        said = f"GLUME loses to Zhang with {row['losses_any']} of {row['workflows']}"
        verdict("SDSC, real requests: Zhang beats GLUME with 11 of 12 medium workflows", said, row["losses_any"] >= 9)
    for rival, cell in (("zhang", "5/18"), ("per-task", "14/18")):
        rows = [against(table, rival) for key, table in tables.items() if key[1:] == ("accurate", "short")]
        wins, lost = sum(row["wins"] for row in rows), sum(row["losses"] for row in rows)
        verdict(
            f"short workflows: GLUME loses more often to {rival} than it wins ({cell})", f"{wins}/{lost}", lost > wins
        )
    rows = [against(table, "one-job", "level-by-level") for table in tables.values()]
    wins, of = sum(row["wins_any"] for row in rows), sum(row["workflows"] for row in rows)
    verdict(
        "level-by-level does not compare well to one-job", f"it is the better one in {wins} of {of}", wins <= of // 10
    )
    print("  HPC2N and CTC, and the workflow SIPHT-500: no data, so not tried")


def regret(logs: tuple[str, ...], sizes: str, often: tuple[str, ...]) -> None:
    """How much longer auto and glume take than the best other strategy of each workflow (not in the paper)."""
    print("\nRegret: mean makespan over that of the best other strategy, mean and worst over the workflows")
    print("(25 submissions spread over the log; to be at most 5 % for auto with accurate requests, and below glume's)")
    for log in logs:
        for requests in TABLE_2:
            for length, seconds in LENGTHS.items():
                options = ("--requests", requests, "--strategies", ",".join((*STRATEGIES, "auto")), "--spread", *often)
                results = replay(f"*_{sizes}_{seconds}.dax", log, *options)["results"]
                cells = [f"{name} {_regret(results, name)}" for name in ("auto", "glume")]
                print(f"  {log}, {requests}, {length:<7} {'   '.join(cells)}", flush=True)


def _regret(results: Rows, strategy: str) -> str:
    makespans: dict[str, dict[str, float]] = {}
    for row in results:
        makespans.setdefault(row["workflow"], {})[row["strategy"]] = row["mean_makespan_seconds"]
    found = [
        own[strategy] / min(time for name, time in own.items() if name != "auto") - 1 for own in makespans.values()
    ]
    return f"{sum(found) / len(found):+.1%} (worst {max(found):+.1%})"


def verdict(reported: str, ours: str, shown: bool) -> None:
    """Print a finding, and whether it is confirmed."""
    print(f"  {'shown' if shown else 'NOT shown'}: {reported}\n    here: {ours}")


def main() -> None:
    """Print everything, or with --quick few submissions of small workflows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="KTH only, workflows of 50 tasks, 7 submissions")
    quick = parser.parse_args().quick
    if not (DATA / "workflows" / "glume").is_dir():
        sys.exit(f"no public data in {DATA}: set TONNAGE_DATA")
    sizes, often = ("50", ("--every", "1d")) if quick else ("*", ())
    tables = whole(("KTH",) if quick else tuple(LOGS), sizes, often)
    medium(tables)
    losses(tables)
    per_task("50" if quick else "250", often)
    table_2(tables)
    not_shown(tables)
    regret(("KTH",) if quick else tuple(LOGS), sizes, ("--every", "1d") if quick else ("--every", "6h"))


if __name__ == "__main__":
    main()
