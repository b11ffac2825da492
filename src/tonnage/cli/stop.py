"""``tonnage stop``: stop a run, so that it can be resumed later."""

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from tonnage.errors import InputError, TonnageError

if TYPE_CHECKING:
    from tonnage.run.folders import RunFolder

__all__ = ["stop"]

_PAUSE = 0.05
_RESUMES = "; running the workflow again resumes it"


@click.command()
@click.argument("text", metavar="[RUN]", default="last")
@click.option("--now", is_flag=True, help="Stop running tasks at once instead of letting them finish.")
@click.option("--wait/--no-wait", default=True, help="Wait until the run has stopped.  [default: wait]")
def stop(text: str, now: bool, wait: bool) -> None:
    """Stop RUN after its running tasks have finished. Running the workflow again resumes it.

    On a cluster, waiting batch jobs are cancelled, with --now all of them. This also works if no tonnage process is
    executing the run any more.

    \b
    Example: tonnage stop last
             tonnage stop analysis-20261116-140411 --now
    """
    from tonnage.run.folders import find_run
    from tonnage.run.state import facts_of

    folder = find_run(text)
    holder = folder.holder()
    if holder is None:
        _cancel(folder)
        return
    process = holder.process
    if process and not holder.is_here:
        raise TonnageError(f"the run {folder.id} is executed on {holder.host} (process {process}); stop it there")
    try:
        if holder.lives():  # otherwise the processes left by a killed engine end by themselves
            os.kill(process, signal.SIGTERM if now else signal.SIGINT)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise TonnageError(f"the run {folder.id} belongs to another user (process {process})") from None
    while wait and folder.process() == process:
        time.sleep(_PAUSE)
    resumes = _RESUMES if "workflow" in facts_of(folder) else ""
    click.echo(f"{folder.id}: {'stopped' if wait else 'stopping'}{resumes}")


def _cancel(folder: "RunFolder") -> None:
    """Cancel the batch jobs that a run without a living process has left in a cluster's queue."""
    from tonnage.batch.registry import SCHEDULERS
    from tonnage.run.backends.batch.in_queue import cancel_batch_jobs
    from tonnage.run.state import facts_of
    from tonnage.wording import counted

    system = SCHEDULERS.get(facts_of(folder).get("on", ""))
    cancelled = cancel_batch_jobs(folder, system.connect()) if system is not None else 0
    if not cancelled:
        raise InputError(f"the run {folder.id} is not under way, so there is nothing to stop")
    click.echo(f"{folder.id}: {counted(cancelled, 'batch job')} cancelled{_RESUMES}")
