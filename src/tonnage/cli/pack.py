"""``tonnage pack``: decide which tasks share a batch job."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tonnage.batch.registry import LIVE, POLICIES, REQUESTS, SCHEDULERS
from tonnage.cli.archive.options import archive_option
from tonnage.cli.clusters import refuse_options, slurm_options
from tonnage.cli.options import gathered, json_option, print_json, read_workflow, workflow_arguments
from tonnage.cli.tables import print_table
from tonnage.errors import InputError
from tonnage.option_values import amounts
from tonnage.pack.packers import ORDERS, PACKERS
from tonnage.units import format_seconds
from tonnage.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonnage.batch import Workload
    from tonnage.jobs import Amounts
    from tonnage.lab.pack_replay import Experiment, Queue
    from tonnage.pack import Carried, Work
    from tonnage.pack.trial import Trial

__all__ = [
    "QueueOptions",
    "compare",
    "log_facts",
    "pack",
    "print_left_out",
    "print_trial",
    "queue_options",
    "trial_facts",
    "work_of",
]

_CAP = 16
_SHOWN = 20
_BARS = 40
_WIDE = 100  # characters of the chart if the output is not a terminal
_HOUR = 3600
_SHARED = ("cores", "memory")


class QueueOptions(NamedTuple):
    """The options that describe the queue and how batch jobs are submitted to it."""

    log: Path
    nodes: int | None
    requests: str
    policy: str
    contiguous: bool
    max_running: int | None
    fudge: float
    order: str
    node: str | None
    min_utilisation: float
    variation: float

    def workload(self) -> "Workload":
        """Read the log, which must contain at least one usable job."""
        from tonnage.batch import Workload

        workload = Workload.load(self.log, nodes=self.nodes)
        if not len(workload):
            reasons = ", ".join(f"{counted(count, 'line')}: {why}" for why, count in workload.left_out.items())
            raise InputError(f"has no usable job{f' ({reasons})' if reasons else ''}", path=self.log)
        return workload

    def experiment(self, times: tuple[int, ...], strategies: tuple[str, ...], caps: tuple[int, ...]) -> "Experiment":
        """Return what to simulate; the default cap is 16 batch jobs, or none if running jobs are capped."""
        from tonnage.lab.pack_replay import Experiment
        from tonnage.pack import Settings

        return Experiment(
            times,
            strategies,
            caps or (_CAP if self.max_running is None else None,),
            max_running=self.max_running,
            requests=self.requests,
            policy=self.policy,
            contiguous=self.contiguous,
            settings=Settings(fudge=self.fudge, min_utilisation=self.min_utilisation, variation=self.variation),
        )


def queue_options(command: Any) -> Any:  # noqa: ANN401 (click's decorators take and give any callable)
    """Add the options of QueueOptions, which are passed to the command as `queue`."""
    return gathered(
        command,
        "queue",
        QueueOptions,
        click.option(
            "--queue",
            "log",
            required=True,
            metavar="LOG",
            type=click.Path(path_type=Path),
            help="SWF log, also gzipped; for tonnage pack also slurm.",
        ),
        click.option("--nodes", type=click.IntRange(1, 10_000_000), help="Size of the machine.  [default: the log's]"),
        click.option(
            "--requests",
            type=click.Choice(REQUESTS),
            default="accurate",
            show_default=True,
            help="Time requested by the log's jobs: exactly their run time, or as recorded in the log.",
        ),
        click.option(
            "--policy",
            type=click.Choice(POLICIES),
            default="conservative",
            show_default=True,
            help="How the queue backfills.",
        ),
        click.option("--contiguous", is_flag=True, help="Give each job contiguous nodes."),
        click.option("--max-running", type=click.IntRange(1), metavar="N", help="Run at most N batch jobs at a time."),
        click.option(
            "--fudge",
            type=float,
            default=1.1,
            show_default=True,
            metavar="FACTOR",
            help="Request this multiple of the estimated run time for each batch job.",
        ),
        click.option(
            "--order",
            type=click.Choice(ORDERS),
            default="longest",
            show_default=True,
            help="Which task of a batch job goes first.",
        ),
        click.option(
            "--node", metavar="AMOUNTS", help="Size of a node, so that tasks can share it: cores=16,memory=64GB."
        ),
        click.option(
            "--min-utilisation",
            type=click.FloatRange(0, 1),
            default=0.0,
            metavar="FRACTION",
            help="Give a batch job only as many nodes as its tasks use for this fraction of the time: 0.5.",
        ),
        click.option(
            "--variation",
            type=click.FloatRange(0, 10),
            default=0.0,
            metavar="FRACTION",
            help="How much run times vary, as a fraction of the expected ones: 0.3.",
        ),
    )


@click.command()
@workflow_arguments
@queue_options
@click.option(
    "--max-submitted",
    type=click.IntRange(1),
    metavar="N",
    help="Keep at most N batch jobs queued or running.  [default: 16, or no limit with --max-running]",
)
@click.option(
    "--at",
    metavar="TIME",
    help="Time of submission: 5d (after the log's first job) or a date.  [default: the middle of the log]",
)
@click.option(
    "--strategy",
    type=click.Choice([*PACKERS, "all"]),
    default="glume",
    show_default=True,
    metavar="NAME",
    help="One of the strategies above.",
)
@slurm_options
@archive_option
@click.option("--dry-run", is_flag=True, help="With --queue slurm: print the scripts that would be submitted now.")
@json_option
def pack(
    path: Path,
    source_format: str | None,
    queue: QueueOptions,
    max_submitted: int | None,
    at: str | None,
    strategy: str,
    partition: str | None,
    account: str | None,
    qos: str | None,
    sbatch_option: tuple[str, ...],
    url: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Decide which tasks should share a batch job, so that the whole workflow finishes sooner.

    \b
    per-task        a batch job for each task
    one-job         all tasks in one batch job
    level-by-level  a batch job for each level, one after the other
    zhang           groups levels while the ratio of wait to run time does not get worse, as GLUME's authors coded it
    zhang-printed   the same, as printed in their paper
    zhang-improved  the same with all groupings, the best number of nodes and the best leeway
    glume           groups levels so that the estimated makespan is shortest
    auto            forecasts each strategy and follows the one that would finish first
    all             all of these, side by side

    The queue is simulated from a log in the Standard Workload Format, starting at its beginning; the log's processors
    are the nodes. The output shows the first decision with its reason, and how the workflow fares as the log goes on.

    With --queue slurm it is the current queue of the Slurm cluster to which this machine belongs. Sizes and run times
    come from the archive. Nothing is submitted: tonnage run --on slurm --pack does that.

    \b
    Example: tonnage pack analysis.dax --queue kth-sp2.swf.gz
             tonnage pack analysis.dax --queue kth-sp2.swf.gz --at 5d --strategy all
             tonnage pack analysis.dag --queue slurm --strategy all
    """
    if str(queue.log) in LIVE:
        from tonnage.cli.pack_live import pack_live

        system = SCHEDULERS[str(queue.log)]
        given = {"partition": partition, "account": account, "qos": qos, "sbatch_option": sbatch_option}
        scheduler = system.connect(**{name: given[name] for name in system.submission})
        workflow = read_workflow(path, source_format)
        pack_live(workflow, scheduler, queue, max_submitted, strategy, url, dry_run=dry_run, as_json=as_json)
        return
    refuse_options(
        ("partition", "account", "qos", "sbatch_option", "url", "dry_run"), f"--queue {' or --queue '.join(LIVE)}"
    )
    from tonnage.lab.pack_replay import try_out

    work = work_of(path, source_format, queue)
    workload = queue.workload()
    moment = workload.moment(at)
    names = tuple(PACKERS) if strategy == "all" else (strategy,)
    experiment = queue.experiment((moment,), names, () if max_submitted is None else (max_submitted,))
    met, trials = try_out(work, workload, experiment)
    if as_json:
        facts = [trial_facts(one) for one in trials]
        print_json({**_queue_facts(queue, workload, met), **({"results": facts} if strategy == "all" else facts[0])})
        return
    print_left_out(queue.log, workload)
    _print_queue(workload, met, middle=at is None)
    if strategy == "all":
        compare(trials)
    else:
        print_trial(trials[0])


def work_of(path: Path, source_format: str | None, queue: QueueOptions) -> "Work":
    """Read a workflow for packing; errors name its file."""
    from tonnage.pack import Work

    node = None if queue.node is None else _node(queue.node)
    workflow = read_workflow(path, source_format)
    try:
        return Work.of(workflow, queue.order, node)
    except InputError as error:
        raise InputError(error.message, path=path, hint=error.hint) from None


def _node(text: str) -> "Amounts":
    """Parse the cores and memory of a node that tasks share."""
    from tonnage.jobs import Amounts

    found = amounts([text], "--node")
    if not found or not found.keys() <= set(_SHARED):
        raise InputError(f'--node: expected {" and ".join(_SHARED)}, not "{text}"', hint="for example: cores=16")
    return Amounts.of(**found)  # type: ignore[arg-type]


def print_left_out(path: Path, workload: "Workload") -> None:
    """Print the size of a log, and how many of its lines were left out and why."""
    span = format_seconds(int(workload.submit[-1] - workload.submit[0]))
    nodes = counted(workload.machine_nodes, "node")
    click.echo(printable(f"{path.name}: {counted(len(workload), 'job')} on {nodes} in {span}"))
    for reason, count in workload.left_out.items():
        click.echo(f"  left out: {counted(count, 'line')}, {reason}")
    if workload.out_of_order:
        click.echo(f"  {counted(workload.out_of_order, 'line')} out of order: sorted by submission")


def _print_queue(workload: "Workload", met: "Queue", *, middle: bool) -> None:
    after = format_seconds(met.moment - int(workload.submit[0]))
    date = _date(workload, met.moment)
    where = " in the middle of the log," if middle else ""
    text = f"submitted{where} {after} after its first job{f' ({date})' if date else ''}"
    click.echo(f"{text}: {counted(met.running, 'job')} running, {met.queued:,} waiting\n")


def _date(workload: "Workload", moment: int) -> str | None:
    from datetime import UTC, datetime

    if workload.unix_start is None:
        return None
    try:
        date = datetime.fromtimestamp(workload.unix_start + moment, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999: a typing error
        return None
    return f"{date:%Y-%m-%d %H:%M} UTC"


def log_facts(queue: QueueOptions, workload: "Workload") -> dict[str, object]:
    """Return the JSON facts about the log."""
    return {
        "log": queue.log.name,
        "jobs": len(workload),
        "nodes": workload.machine_nodes,
        "left_out": dict(workload.left_out),
        "out_of_order": workload.out_of_order,
    }


def _queue_facts(queue: QueueOptions, workload: "Workload", met: "Queue") -> dict[str, object]:
    return {
        "queue": {**log_facts(queue, workload), "running": met.running, "waiting": met.queued},
        "at_seconds": met.moment - int(workload.submit[0]),
    }


def trial_facts(trial: "Trial") -> dict[str, object]:
    """Return the JSON facts about one strategy and its batch jobs."""
    outcome = trial.outcome
    return {
        "strategy": trial.strategy,
        "makespan_seconds": outcome.makespan,
        "estimated_makespan_seconds": trial.estimate,
        "expired": outcome.expired,
        "node_hours_idle": outcome.idle / _HOUR,
        "reason": trial.reason,
        "jobs": [_job(trial, number, one) for number, one in enumerate(outcome.carried)],
    }


def _job(trial: "Trial", number: int, carried: "Carried") -> dict[str, object]:
    """Return the facts of a batch job; times are seconds since the workflow was submitted."""
    started, ended = carried.started, carried.ended
    return {
        "levels": list(carried.job.levels),
        "tasks": len(carried.job.tasks),
        "nodes": carried.job.nodes,
        "requested_seconds": carried.job.seconds,
        "wait_seconds": None if started is None else started - carried.submitted,
        "estimated_wait_seconds": trial.estimated_wait(number),
        "submitted_seconds": carried.submitted - trial.begin,
        "started_seconds": None if started is None else started - trial.begin,
        "ended_seconds": None if ended is None else ended - trial.begin,
        "first_decision": number < len(trial.first),
        "expired": carried.expired,
        "cancelled": carried.cancelled,
    }


def compare(trials: "Sequence[Trial]") -> None:
    """Print all strategies, the shortest makespan first."""
    least = min(one.outcome.makespan for one in trials)
    rows = [
        [
            one.strategy,
            format_seconds(one.outcome.makespan),
            f"{one.outcome.makespan / least:.2f}",
            "-" if one.estimate is None else format_seconds(one.estimate),
            f"{len(one.outcome.carried):,}",
            f"{one.outcome.expired:,}",
            f"{one.outcome.idle / _HOUR:,.1f}",
        ]
        for one in sorted(trials, key=lambda one: one.outcome.makespan)
    ]
    header = ["strategy", "makespan", "to best", "estimated", "batch jobs", "expired", "idle node*h"]
    print_table(header, rows, right=header[1:], give_way=("to best", "expired", "idle node*h"))


def print_trial(trial: "Trial") -> None:
    """Print the decision, the batch jobs and a chart."""
    outcome = trial.outcome
    click.echo(f"{trial.strategy} first submits {counted(len(trial.first), 'batch job')}: {trial.reason}")
    idle = f"{outcome.idle / _HOUR:,.1f} node-hours idle"
    jobs = counted(len(outcome.carried), "batch job")
    click.echo(f"done after {format_seconds(outcome.makespan)}: {jobs}, {outcome.expired:,} expired, {idle}\n")
    rows = [
        [*_cells(number, carried), _time(trial.estimated_wait(number)), *_times(carried)]
        for number, carried in enumerate(outcome.carried[:_SHOWN])
    ]
    header = ["job", "levels", "tasks", "nodes", "requested", "estimated wait", "waited", "ran", ""]
    print_table(header, rows, right=header[1:-1])
    if len(outcome.carried) > _SHOWN:
        click.echo(f"({counted(len(outcome.carried) - _SHOWN, 'more batch job')}: --json lists them all)")
    _draw(trial)


def _cells(number: int, carried: "Carried") -> list[str]:
    job = carried.job
    return [str(number + 1), _levels(job.levels), f"{len(job.tasks):,}", f"{job.nodes:,}", format_seconds(job.seconds)]


def _times(carried: "Carried") -> list[str]:
    state = "cancelled" if carried.cancelled else "expired" if carried.expired else ""
    if carried.started is None:
        return ["-", "-", state]
    ran = None if carried.ended is None else carried.ended - carried.started
    return [_time(carried.started - carried.submitted), _time(ran), state]


def _levels(levels: tuple[int, int]) -> str:
    first, last = levels
    return str(first) if first == last else f"{first}-{last}"


def _time(seconds: int | None) -> str:
    return "-" if seconds is None else format_seconds(seconds)


def _draw(trial: "Trial") -> None:
    """Draw when batch jobs wait and run; if there are many, jobs of the same levels share a bar."""
    from rich.console import Console

    console = Console()
    bars = list(_bars(trial))
    label = max(len(name) for name, *_ in bars) + 2
    width = max(10, (console.width if console.is_terminal else _WIDE) - label)
    end = max(1, *(ended for *_, ended in bars))
    click.echo(f"\n░ waiting, █ running, from 0 to {format_seconds(end)}")
    for name, submitted, started, ended in bars[:_BARS]:
        places = [round(moment * width / end) for moment in (submitted, started, ended)]
        first, middle, last = places[0], min(places[1], width - 1), max(places[2], places[1] + 1)
        bar = " " * first + "░" * (middle - first) + "█" * (min(last, width) - middle)
        click.echo(f"{name:<{label}}{bar}".rstrip())
    if len(bars) > _BARS:
        click.echo(f"({counted(len(bars) - _BARS, 'more line')})")


def _bars(trial: "Trial") -> "Iterator[tuple[str, int, int, int]]":
    """Yield a name and three times: submitted, started, ended."""
    carried = trial.outcome.carried
    last = trial.begin + trial.outcome.makespan
    if len(carried) <= _SHOWN:
        groups = {str(number): [one] for number, one in enumerate(carried, start=1)}
    else:
        groups = {}
        for one in carried:
            groups.setdefault(f"level {_levels(one.job.levels)}", []).append(one)
    for name, group in groups.items():
        ended = max(last if one.ended is None else one.ended for one in group)
        started = min((one.started for one in group if one.started is not None), default=ended)
        submitted = min(one.submitted for one in group)
        yield name, submitted - trial.begin, started - trial.begin, ended - trial.begin
