"""Speed and memory of the engine that runs workflows, up to a million tasks and ten thousand categories.

    python benchmarks/engines.py [--quick]

An event is the start or the end of an attempt. Everything else is simulated: tasks end by a virtual clock, some of them
because they need more memory than allocated. The baseline is a list scheduler on a plain heap without sizes,
categories, machines or failures: as many slots as cores, on the same tasks and dependencies, in the same process.
Seconds are CPU time. Each line is measured in a separate process, because of its memory.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from time import process_time

import numpy as np

from tonnage.jobs import SHARED, Amounts, Outcome, Resource
from tonnage.run.engine import Engine
from tonnage.run.events import Ended
from tonnage.run.machines import Machine, Room
from tonnage.size import Plan
from tonnage.size.learner import Learner
from tonnage.units import format_bytes
from tonnage.workflow import Task, Workflow

MACHINES = [Machine(16.0, 64e9)] * 10
WIDE = 1000
"""Every task depends on the one this many positions before it."""


def workflow_of(tasks: int, categories: int) -> Workflow:
    """Return parallel chains of tasks."""
    made = [Task(f"t{number}", category=f"c{number % categories}") for number in range(tasks)]
    parents = np.arange(max(0, tasks - WIDE))
    return Workflow.build("chains", made, (parents, parents + WIDE))


def baseline(workflow: Workflow, seconds: Sequence[float]) -> int:
    """Run all tasks on this many slots, in the order in which they become ready; return the number of events."""
    missing, graph = workflow.graph.indegree.tolist(), workflow.graph
    children, begins = graph.child.tolist(), graph.child_start.tolist()
    ready = [task for task, many in enumerate(missing) if not many]
    running: list[tuple[float, int]] = []
    free, now, events = sum(int(one.cores) for one in MACHINES), 0.0, 0
    while ready or running:
        while ready and free:
            task = heappop(ready)
            heappush(running, (now + seconds[task], task))
            free, events = free - 1, events + 1
        now, task = heappop(running)
        free, events = free + 1, events + 1
        for child in children[begins[task] : begins[task + 1]]:
            missing[child] -= 1
            if not missing[child]:
                heappush(ready, child)
    return events


def run(workflow: Workflow, seconds: Sequence[float], memory: Sequence[float]) -> int:
    """Run all tasks with the engine; return the number of events."""
    plan = Plan(machine=MACHINES[0].amounts(), resources=SHARED)
    engine = Engine(workflow.tasks, Learner(plan), Room(MACHINES), workflow=workflow)
    clock: list[tuple[float, int]] = []
    now, events = 0.0, 0
    while True:
        for start in engine.admit():
            heappush(clock, (now + seconds[start.task], start.attempt))
            events += 1
        if not clock:
            return events
        now, attempt = heappop(clock)
        start = engine.start_of(attempt)
        if memory[start.task] > start.decisions[1].amount:
            end = Ended(attempt=attempt, outcome=Outcome.EXHAUSTED, exhausted=Resource.MEMORY)
        else:
            used = Amounts.of(cores=1, memory=memory[start.task], wall_time=seconds[start.task])
            end = Ended(attempt=attempt, outcome=Outcome.DONE, used=used)
        engine.ended(end)
        events += 1


def measured(tasks: int, categories: int) -> dict[str, float]:
    """Measure one size; meant to run in a separate process."""
    rng = np.random.default_rng(1)
    memory = (rng.lognormal(0, 0.4, tasks) * 1e9 * (1 + np.arange(tasks) % categories / categories)).tolist()
    seconds = rng.exponential(100, tasks).tolist()
    workflow = workflow_of(tasks, categories)
    begin = process_time()
    plain = baseline(workflow, seconds)
    between = process_time()
    events = run(workflow, seconds, memory)
    end = process_time()
    return {
        "events": events,
        "rate": events / (end - between),
        "baseline": plain / (between - begin),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description="Speed and memory of the engine")
    parser.add_argument("--quick", action="store_true", help="smaller workflows, as a check that this runs")
    parser.add_argument("--one", nargs=2, type=int, metavar=("TASKS", "CATEGORIES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one)))
        return
    largest = 10_000 if options.quick else 1_000_000
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if largest / 100 <= size <= largest]
    print("   tasks  categories      events  events/s  of a plain list scheduler    memory")
    for tasks, categories in [*((size, 10) for size in sizes), (sizes[-1], sizes[-1] // 100)]:
        command = [sys.executable, __file__, "--one", str(tasks), str(categories)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"{tasks:8,}  {categories:10,}  {found['events']:10,}  {found['rate']:8,.0f}"
            f"  {found['rate'] / found['baseline']:25.3f}  {format_bytes(found['memory']):>8}"
        )


if __name__ == "__main__":
    main()
