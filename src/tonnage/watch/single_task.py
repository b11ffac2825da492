"""One command in a batch job of its own: minded here, its result left in a file for the submitter.

``python -P -m tonnage.watch.single_task BATCHFOLDER [ELEMENT [HOST [RESTARTS]]]`` carries out one line of
BATCHFOLDER/orders, by default the first; HOST and RESTARTS are what the batch system calls this machine, and how often
it has started this job again. BATCHFOLDER is RUN/batches/NUMBER, and the answer is left as RUN/results/ATTEMPT. The
exit status is 0 where that could be written: how the command ended is in the result.
"""

import os
import sys
from _signal import SIGHUP, SIGINT, SIGTERM, sigtimedwait
from time import time

from tonnage.atomic import make_private_folder
from tonnage.errors import TonnageError
from tonnage.watch.guard import Verdict, guard
from tonnage.watch.minder import CannotStartError, Minder, Outcome
from tonnage.watch.order import MONITOR_KILLED, RESULTS, TERMINATED, Outputs, answered, job_of, leave_result
from tonnage.watch.record import parse
from tonnage.watch.system import fill_standard_streams, forget_coerced_locale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ORDERS", "main"]

ORDERS = "orders"
"""The file of a batch job's folder that has an order on each line: that of element 0 on the first."""

_ENDS = frozenset((SIGTERM, SIGINT, SIGHUP))  # what a batch system sends to all processes of a job that is to end
_MOMENT = 0.1  # seconds in which such a signal has reached all of them
_PIECE = 1 << 20


def main(arguments: "list[str]") -> int:
    """Carry out one order and return the exit status."""
    fill_standard_streams()
    forget_coerced_locale()
    try:
        batch = os.path.abspath(arguments[0])
        element, host, restarts = (*arguments[1:4], *("0", "", "0")[len(arguments) - 1 :])
        order = _order(batch, int(element))
        order["here"] = {"host": host or os.uname().nodename, "restarts": int(restarts)}
        return _carry_out(order, os.path.dirname(os.path.dirname(batch)))
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
                order: dict[str, Any] = parse(line.decode())  # type: ignore[assignment] # we wrote it
                return order
    raise ValueError(f"{path}: there is no order {element}")


def _carry_out(order: "dict[str, Any]", run: str) -> int:
    """See to it that there is an answer to an order; one that has ended before is not carried out again."""
    words = os.path.join(run, RESULTS)
    make_private_folder(words)
    if os.path.exists(os.path.join(words, str(order["attempt"]))):
        return 0
    begun = time()
    outputs = Outputs(f"{order['stdout']}.part", f"{order['stderr']}.part")
    verdict = guard(lambda mask, keeper: _mind(order, run, outputs, mask, keeper))
    if isinstance(verdict, Verdict):
        return verdict.number
    _answer(order, Outcome.of_killed_monitor(begun, time()), None, run, outputs)
    return 0


def _mind(order: "dict[str, Any]", run: str, outputs: Outputs, mask: "set[int]", keeper: int) -> Verdict:
    """Mind the command, in a process of its own."""
    minder = _TaskMinder(mask, keeper)
    outcome, problem = Outcome(time()), None
    try:
        outcome = minder.mind(job_of(order, os.environ, outputs))
    except (CannotStartError, ValueError) as error:  # a value: a zero byte in a word, or "=" in a variable's name
        problem = str(error)
    if minder.was_told_to_end(outcome):
        outcome.stopped_because = TERMINATED
    try:
        _answer(order, outcome, problem, run, outputs)
    except (TonnageError, OSError) as error:
        return Verdict(_fail(f"the answer cannot be written: {error}"))
    return Verdict(0)


def _answer(order: "dict[str, Any]", outcome: Outcome, problem: "str | None", run: str, outputs: Outputs) -> None:
    answer = answered(order, outcome, problem, outputs, run)
    answer |= order["here"]
    leave_result(run, answer)
    outputs.remove()


class _TaskMinder(Minder):
    """A minder that kills its command when the batch job is to end."""

    def __init__(self, mask: "set[int]", guard: int) -> None:
        super().__init__(mask)  # the guard need not stop when the command stops: no user sees it
        self._guard = guard
        self._told = False

    def is_for_us(self, number: int) -> bool:
        """Whether a signal tells us to end."""
        self._told = self._told or number in _ENDS
        return number in _ENDS

    def why_stop(self) -> "str | None":
        """Return why the command must not go on."""
        if os.getppid() != self._guard:
            return MONITOR_KILLED
        return TERMINATED if self._told else None

    def was_told_to_end(self, outcome: Outcome) -> bool:
        """Whether the batch job is to end; a command that died of it may have heard of it before us."""
        if not self._told and outcome.status and not outcome.stopped_because:
            self._told = sigtimedwait(_ENDS, _MOMENT) is not None
        return self._told and outcome.stopped_because in (None, TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
