"""Runs and watches the single command of a batch job, and leaves its result in a file for the submitter.

``python -P -m tonnage.watch.single_task BATCHFOLDER [ELEMENT [HOST [RESTARTS]]]`` executes one line of
BATCHFOLDER/orders, by default the first; HOST is the batch system's name for this machine, and RESTARTS how often it
has restarted this job. BATCHFOLDER is RUN/batches/NUMBER, and the answer is written to RUN/results/ATTEMPT. The exit
status is 0 if that worked: how the command ended is in the result.
"""

import os
import sys
from _signal import SIGHUP, SIGINT, SIGTERM, sigtimedwait
from time import time

from tonnage.atomic import make_private_folder
from tonnage.errors import CannotStartError, TonnageError
from tonnage.watch.guard import Verdict, guard
from tonnage.watch.minder import Minder, Outcome
from tonnage.watch.order import MONITOR_KILLED, RESULTS, TERMINATED, Outputs, answered, job_of, leave_result
from tonnage.watch.record import parse
from tonnage.watch.system import fill_standard_streams, forget_coerced_locale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ORDERS", "main"]

ORDERS = "orders"
"""The file in a batch job's folder with one order per line; element 0 is on the first."""

_ENDS = frozenset((SIGTERM, SIGINT, SIGHUP))  # sent by a batch system to all processes of a job that must end
_MOMENT = 0.1  # seconds until such a signal has reached all of them
_PIECE = 1 << 20


def main(arguments: "list[str]") -> int:
    """Execute one order and return the exit status."""
    fill_standard_streams()
    forget_coerced_locale()
    try:
        batch = os.path.abspath(arguments[0])
        element, host, restarts = (*arguments[1:4], *("0", "", "0")[len(arguments) - 1 :])
        order = _order(batch, int(element))
        order["here"] = {"host": host or os.uname().nodename, "restarts": int(restarts)}
        return _execute(order, os.path.dirname(os.path.dirname(batch)))
    except IndexError:
        return _fail("expected the folder of a batch job")
    except OSError as error:
        return _fail(f"{error.filename or 'the batch job'}: {error.strerror or error}")
    except (TonnageError, ValueError, KeyError, TypeError) as error:
        return _fail(f"{error}")


def _fail(problem: str) -> int:
    os.write(2, f"tonnage: {problem}\n".encode(errors="backslashreplace"))
    return 1


def _order(batch: str, element: int) -> "dict[str, Any]":
    """Return the order of an element."""
    path = os.path.join(batch, ORDERS)
    with open(path, "rb", _PIECE) as file:
        for number, line in enumerate(file):
            if number == element:
                order: dict[str, Any] = parse(line.decode())  # type: ignore[assignment] # written by us
                return order
    raise ValueError(f"{path}: no order {element}")


def _execute(order: "dict[str, Any]", run: str) -> int:
    """Make sure that an order has an answer; one that already has is not executed again."""
    results = os.path.join(run, RESULTS)
    make_private_folder(results)
    if os.path.exists(os.path.join(results, str(order["attempt"]))):
        return 0
    begun = time()
    outputs = Outputs(f"{order['stdout']}.part", f"{order['stderr']}.part")
    verdict = guard(lambda mask, guard_pid: _mind(order, run, outputs, mask, guard_pid))
    if isinstance(verdict, Verdict):
        return verdict.number
    _answer(order, Outcome.of_killed_monitor(begun, time()), None, run, outputs)
    return 0


def _mind(order: "dict[str, Any]", run: str, outputs: Outputs, mask: "set[int]", guard_pid: int) -> Verdict:
    """Watch the command; runs in the minder process."""
    minder = _TaskMinder(mask, guard_pid)
    outcome, problem = Outcome(time()), None
    try:
        outcome = minder.mind(job_of(order, os.environ, outputs))
    except (CannotStartError, ValueError) as error:  # ValueError: a zero byte in a word, "=" in a variable's name
        problem = str(error)
    if minder.job_is_ending(outcome):
        outcome.stopped_because = TERMINATED
    try:
        _answer(order, outcome, problem, run, outputs)
    except (TonnageError, OSError) as error:
        return Verdict(_fail(f"the result cannot be written: {error}"))
    return Verdict(0)


def _answer(order: "dict[str, Any]", outcome: Outcome, problem: "str | None", run: str, outputs: Outputs) -> None:
    answer = answered(order, outcome, problem, outputs, run)
    answer |= order["here"]
    leave_result(run, answer)
    outputs.remove()


class _TaskMinder(Minder):
    """A minder that kills its command when the batch job must end."""

    def __init__(self, mask: "set[int]", guard: int) -> None:
        super().__init__(mask)  # the guard need not stop when the command stops: users never see it
        self._guard = guard
        self._ending = False

    def is_for_us(self, number: int) -> bool:
        """Whether a signal asks the batch job to end."""
        self._ending = self._ending or number in _ENDS
        return number in _ENDS

    def why_stop(self) -> "str | None":
        """Return why the command must be stopped."""
        if os.getppid() != self._guard:
            return MONITOR_KILLED
        return TERMINATED if self._ending else None

    def job_is_ending(self, outcome: Outcome) -> bool:
        """Whether the batch job must end; the signal may have killed the command before it reaches us."""
        if not self._ending and outcome.status and not outcome.stopped_because:
            self._ending = sigtimedwait(_ENDS, _MOMENT) is not None
        return self._ending and outcome.stopped_because in (None, TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
