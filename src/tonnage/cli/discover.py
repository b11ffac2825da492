"""``tonnage discover``: clusters of jobs that used similar amounts."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import json_option, print_json, read_workflow
from tonnage.cli.source_options import source_options
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.jobs import Resource
from tonnage.option_values import pairs, part
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from tonnage.job_sources import Reading
    from tonnage.jobs import Attempt
    from tonnage.size.discover import Applied, Cluster, Discovery

__all__ = ["discover"]

_SHOWN = 40
_STEPS = 20


@click.command()
@click.argument("texts", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@click.option("--eps", type=float, help="Largest distance between neighbours.  [default: the best of many]")
@click.option("--eps-range", metavar="A:B[:STEP]", help="Try distances from A to B: 60:220:20.")
@click.option(
    "--weights",
    metavar="NAME=WEIGHT,...",
    help="Weights of the resources.  [default: cores=0.1,memory=0.7,disk=0.1,wall_time=0.1]",
)
@click.option(
    "--margin", default="5%", show_default=True, metavar="PERCENT", help="Add this to the largest use in a cluster."
)
@click.option("--write", is_flag=True, help="Store the clusters as labels of the jobs; SOURCE must be an archive.")
@click.option("--apply", "workflow_path", type=click.Path(path_type=Path), metavar="WORKFLOW", help="Workflow to size.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to write the sized workflow."
)
@json_option
def discover(
    texts: tuple[str, ...],
    reading: "Reading",
    eps: float | None,
    eps_range: str | None,
    weights: str | None,
    margin: str,
    write: bool,
    workflow_path: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find clusters of jobs that used similar amounts, for jobs without categories or to improve on them.

    Jobs are compared by their cores, memory and disk in MB, and run time in seconds; those closer than EPS, directly or
    through others, form one cluster. The best of many EPS is chosen: the one that best matches the categories or
    programs, if there are several, else the one with the highest Calinski-Harabasz score. Several runs of a task count
    as one, with the most that any of them used.

    \b
    Example: tonnage discover jobs.csv
             tonnage discover archive.db --write && tonnage size archive.db --by label
             tonnage discover archive.db --apply analysis.mf -o sized.mf
    """
    from tonnage.size.discover import WEIGHTS, merge
    from tonnage.size.discover import discover as find

    if (workflow_path is None) != (output is None):
        raise InputError("--apply and --output must be used together", hint="use --apply WORKFLOW -o FILE")
    if write and len(texts) != 1:
        raise InputError("--write needs exactly one SOURCE, an archive")
    radii = _radii(eps, eps_range)
    added = part(margin, "--margin")
    tasks = merge(_attempts(reading, texts, archive_only=write))
    found = find(tasks, radii=radii, weights=_weights(weights) if weights else WEIGHTS)
    applied = _apply(found, workflow_path, output, added) if workflow_path and output else None
    written = _write(found, texts[0]) if write else None
    if as_json:
        print_json(_facts(found, added, applied, written))
    else:
        _print(found, added)
        _print_done(applied, output, written)


def _attempts(reading: "Reading", texts: tuple[str, ...], *, archive_only: bool) -> "Iterator[Attempt]":
    for source in reading.sources(texts):
        if archive_only and source.format != "archive":
            raise InputError(
                f"{source.name} is not an archive", hint="--write stores labels in the archive that it reads"
            )
        yield from reading.attempts(source)


def _radii(eps: float | None, eps_range: str | None) -> list[float] | None:
    """Return the distances to try; None to derive them from the jobs."""
    if eps is not None and eps_range is not None:
        raise InputError("--eps and --eps-range cannot be used together")
    if eps is not None:
        return [eps]
    if eps_range is None:
        return None
    try:
        low, high, *step = (float(part) for part in eps_range.split(":"))
        size = step[0] if step else (high - low) / _STEPS
        valid = len(step) <= 1 and 0 <= low < high and size > 0 and (high - low) / size <= 1000
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f'--eps-range: "{eps_range}" is not a range', hint="use one such as 60:220 or 60:220:20")
    return [low + number * size for number in range(int((high - low) / size * (1 + 1e-9)) + 1)]


def _weights(text: str) -> dict[Resource, float]:
    from tonnage.size.discover import FEATURES

    found = {}
    for name, value in pairs(text.split(","), "--weights").items():
        if name not in FEATURES:
            raise InputError(f'--weights: "{name}" cannot be compared', hint=f"use one of {', '.join(FEATURES)}")
        try:
            found[Resource(name)] = float(value)
        except ValueError:
            raise InputError(f'--weights: "{value}" is not a number') from None
    return found


def _apply(found: "Discovery", path: Path, output: Path, margin: float) -> "Applied":
    from tonnage.size.discover import apply
    from tonnage.workflow import write

    workflow = read_workflow(path, None)
    applied = apply(found, workflow, margin=margin)
    write(applied.workflow, output)
    return applied


def _write(found: "Discovery", text: str) -> int:
    from tonnage.archive import Archive
    from tonnage.archive.maintenance import set_labels

    labels = {
        identity: found.clusters[number].label
        for task, number in zip(found.tasks, found.cluster.tolist(), strict=True)
        for identity in task.identities
    }
    with Archive.open(text) as archive:
        return set_labels(archive, labels)


def _print(found: "Discovery", margin: float) -> None:
    from tonnage.size.discover import FEATURES

    shown = [resource for resource in FEATURES if any(resource in one.maxima for one in found.clusters)]
    header = ["cluster", "tasks", *shown, "categories"]
    rows = [
        [
            one.label,
            f"{one.tasks:,}",
            *(resource.format_amount(one.maxima[resource]) if resource in one.maxima else "" for resource in shown),
            _categories(one),
        ]
        for one in found.clusters[:_SHOWN]
    ]
    print_table(header, rows, right=header[1:-1], give_way=("categories",))
    if len(found.clusters) > _SHOWN:
        click.echo(f"and {len(found.clusters) - _SHOWN:,} more; use --json to print all")
    how = {"structure": "best match of the categories", "calinski-harabasz": "highest score", "given": "as given"}
    score = "" if found.score is None else f", score {found.score:.4g}"
    click.echo(f"\n{counted(len(found.clusters), 'cluster')} at eps {found.eps:.4g} ({how[found.chosen_by]}{score})")
    if found.left_out:
        click.echo(f"left out {counted(found.left_out, 'task')} without measurements of {', '.join(found.features)}")
    saved = ", ".join(f"{resource} {saved:.1%}" for resource, saved in found.savings(margin).items())
    if saved:
        click.echo(f"saved with a margin of {margin:.0%}, compared with {found.compared_with}: {saved}")


def _categories(cluster: "Cluster") -> str:
    names = [f"{printable(name) or '(none)'} {count:,}" for name, count in cluster.categories.items()]
    return ", ".join(chain(names[:3], ["…"] if len(names) > 3 else []))


def _print_done(applied: "Applied | None", output: Path | None, written: int | None) -> None:
    if applied is not None:
        ways = ", ".join(f"{count:,} by {by}" for by, count in applied.found_by.items() if by != "nothing")
        click.echo(f"{output}: {counted(len(applied.workflow), 'task')}, sizes found {ways or 'for none'}")
        if applied.found_by.get("nothing"):
            click.echo(f"  {counted(applied.found_by['nothing'], 'task')} unchanged: no similar task has run")
        both = applied.before, applied.after
        rows = [
            [str(resource), *(resource.format_amount(asked[resource]) if resource in asked else "" for asked in both)]
            for resource in applied.after
        ]
        print_table(["total requests", "before", "after"], rows, right=["before", "after"])
    if written is not None:
        click.echo(f"{counted(written, 'job')} labelled; tonnage size --by label uses the labels")


def _facts(found: "Discovery", margin: float, applied: "Applied | None", written: int | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "clusters": [
            {
                "label": one.label,
                "jobs": one.tasks,
                "maxima": {str(resource): amount for resource, amount in one.maxima.items()},
                "allocation": {str(resource): amount for resource, amount in one.allocation(margin).known()},
                "categories": dict(one.categories),
            }
            for one in found.clusters
        ],
        "eps": found.eps,
        "score": found.score,
        "chosen_by": found.chosen_by,
        "features": [str(resource) for resource in found.features],
        "left_out": found.left_out,
        "savings": {str(resource): saved for resource, saved in found.savings(margin).items()},
        "savings_against": found.compared_with,
    }
    if applied is not None:
        before, after = (
            {str(one): amount for one, amount in asked.items()} for asked in (applied.before, applied.after)
        )
        found_by = dict(applied.found_by)
        facts["applied"] = {"tasks": len(applied.workflow), "found_by": found_by, "before": before, "after": after}
    if written is not None:
        facts["labelled"] = written
    return facts
