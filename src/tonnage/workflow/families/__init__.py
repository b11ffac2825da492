"""Workflows with well-known structures, at any size, for tests and experiments.

    shapes.py      the dependencies
    profiles.py    what the tasks of each category use: a table of distributions

Every task writes one file, named after it, and reads the files of the tasks that it waits for, so formats that only
know files express the same dependencies. Its command creates that file immediately (``touch``): it runs in an empty
folder, needs no special program, and does not try to use the resources in `Task.expected`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tonnage.errors import InputError
from tonnage.jobs import Amounts
from tonnage.units import Bytes
from tonnage.workflow.families import profiles, shapes
from tonnage.workflow.graph import Graph
from tonnage.workflow.model import Task, Workflow

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """Workflows of one structure and any size."""

    name: str
    description: str
    shape: Callable[..., shapes.Sketch]
    """Takes a number of tasks, a random generator and the family's own options."""
    tasks: int
    """The default number of tasks."""
    least: int
    """The fewest tasks that show the structure."""
    sizes: str
    """How close the number of tasks is to the requested one."""

    def generate(self, tasks: int | None = None, seed: int = 0, **options: object) -> Workflow:
        """Generate a workflow of about `tasks` tasks; the same arguments give the same workflow."""
        wanted = self.tasks if tasks is None else tasks
        if not self.least <= wanted <= shapes.MOST_TASKS:
            raise InputError(f"{self.name} can have {self.least:,} to {shapes.MOST_TASKS:,} tasks, not {wanted:,}")
        rng = np.random.Generator(np.random.PCG64(seed))
        sketch = self.shape(wanted, rng, **options)
        graph = Graph.from_edges(sketch.size, *sketch.edges())
        drawn = profiles.draw(rng, sketch.blocks, graph)
        # The graph exists already and the names are unique, so Workflow.build would only do the work twice.
        return Workflow(name=self.name, tasks=tuple(_tasks(sketch.blocks, graph, drawn)), dependencies=graph)


def _tasks(blocks: list[tuple[str, int]], graph: Graph, drawn: profiles.Drawn) -> Iterator[Task]:
    categories = [category for category, count in blocks for _ in range(count)]
    names = _names(blocks)
    files = [f"{name}.out" for name in names]
    read = [files[parent] for parent in graph.parent.tolist()]
    start = graph.parent_start.tolist()
    for number, name in enumerate(names):
        yield Task(
            name=name,
            command=f"touch {files[number]}",
            category=categories[number],
            inputs=tuple(read[start[number] : start[number + 1]]),
            outputs=(files[number],),
            expected=Amounts.of(
                cores=1.0,
                memory=drawn.memory[number],
                disk=drawn.disk[number],
                wall_time=drawn.seconds[number],
            ),
            input_bytes=Bytes(drawn.read[number]),
        )


def _names(blocks: list[tuple[str, int]]) -> list[str]:
    """Number the tasks of each category from 1, with leading zeros so that they sort."""
    total: Counter[str] = Counter()
    for category, count in blocks:
        total[category] += count
    used: Counter[str] = Counter()
    names = []
    for category, count in blocks:
        digits = len(str(total[category]))
        names += [f"{category}_{number:0{digits}}" for number in range(used[category] + 1, used[category] + count + 1)]
        used[category] += count
    return names


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "airsn",
            "Double umbrella with fringes (fMRI analysis)",
            shapes.airsn,
            tasks=773,
            least=26,
            sizes="the nearest 3 w + 23 with a width w",
        ),
        Family(
            "cybershake",
            "Forks of short chains, two joins (earthquake hazards)",
            shapes.cybershake,
            tasks=1000,
            least=7,
            sizes="exactly",
        ),
        Family(
            "epigenomics",
            "Lanes of four-step pipelines, merged (DNA methylation)",
            shapes.epigenomics,
            tasks=1121,
            least=9,
            sizes="to within 2",
        ),
        Family(
            "fork-join",
            "One task, many in parallel, one that joins them",
            shapes.fork_join,
            tasks=102,
            least=3,
            sizes="exactly",
        ),
        Family(
            "ligo",
            "Groups of chains that join and fork again (Inspiral)",
            shapes.ligo,
            tasks=2988,
            least=6,
            sizes="to within 2",
        ),
        Family(
            "montage",
            "Grid with shared overlaps, bottleneck, fork (sky mosaic)",
            shapes.montage,
            tasks=7881,
            least=11,
            sizes="exactly from 50 on, below that up to 3 more",
        ),
        Family(
            "random-layered",
            "Random dependencies between neighbouring layers",
            shapes.random_layered,
            tasks=1000,
            least=1,
            sizes="exactly",
        ),
        Family(
            "sdss",
            "Lines of fields that share neighbours (galaxy clusters)",
            shapes.sdss,
            tasks=48_013,
            least=109,
            sizes="to within 2",
        ),
        Family(
            "sipht",
            "Many searches joined for each replicon (small RNAs)",
            shapes.sipht,
            tasks=1000,
            least=13,
            sizes="exactly",
        ),
    )
}
