"""``tonnage stop``: end a run, so that it can go on later."""

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
_GOES_ON = "; running its workflow again goes on with it"


@click.command()
@click.argument("text", metavar="[RUN]", default="last")
@click.option("--now", is_flag=True, help="End running tasks at once, instead of letting them finish.")
@click.option("--wait/--no-wait", default=True, help="Wait until the run has stopped.  [default: wait]")
def stop(text: str, now: bool, wait: bool) -> None:
    """Stop RUN: nothing more is started; running tasks finish first. Running the workflow again goes on.

    On a cluster, batch jobs that wait are cancelled, with --now all; so are those of a run that nobody executes.

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
        raise TonnageError(f"the run {folder.id} is executed on {holder.host} (process {process}): stop it there")
    try:
        if holder.lives():  # else what a killed engine left behind ends by itself
            os.kill(process, signal.SIGTERM if now else signal.SIGINT)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        raise TonnageError(f"the run {folder.id} belongs to another user (process {process})") from None
    while wait and folder.process() == process:
        time.sleep(_PAUSE)
    goes_on = _GOES_ON if "workflow" in facts_of(folder) else ""
    click.echo(f"{folder.id}: {'stopped' if wait else 'is being stopped'}{goes_on}")


def _cancel(folder: "RunFolder") -> None:
    """Cancel what a run that nobody executes has left in the queue of a cluster."""
    from tonnage.batch.registry import SCHEDULERS
    from tonnage.cli.tables import counted
    from tonnage.run.backends.batch.in_queue import cancel_batch_jobs
    from tonnage.run.state import facts_of

    system = SCHEDULERS.get(facts_of(folder).get("on", ""))
    cancelled = cancel_batch_jobs(folder, system.connect()) if system is not None else 0
    if not cancelled:
        raise InputError(f"the run {folder.id} is not under way: there is nothing to stop")
    click.echo(f"{folder.id}: {counted(cancelled, 'batch job')} cancelled{_GOES_ON}")
