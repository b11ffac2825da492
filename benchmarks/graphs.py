"""Speed and memory of the workflow model, next to networkx on the same graph in the same run.

    python benchmarks/graphs.py [--quick]

Prints how order, levels and critical path scale from 10^4 to 10^6 tasks (three dependencies each), and how long a
DAGMan file takes to read. Seconds depend on the machine; the ratios are what counts.
"""

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np

from tonnage.jobs import Amounts
from tonnage.units import format_bytes
from tonnage.workflow import Graph, Task, Workflow, read

HERE = Path(__file__).resolve().parent


def dependencies(size: int, degree: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return random dependencies on tasks a little earlier: deep and wide, like a long-running analysis."""
    rng = np.random.default_rng(size)
    children = np.repeat(np.arange(1, size), degree)
    parents = children - rng.integers(1, np.minimum(children, 1000) + 1)
    return parents, children


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours(size: int, parents: np.ndarray, children: np.ndarray, weights: np.ndarray) -> None:
    """Build the graph and compute its order, levels and critical path."""
    graph = Graph.from_edges(size, parents, children)
    _ = graph.order, graph.level, graph.widths
    graph.longest_path(weights)


def theirs(graph: "nx.DiGraph[int]", weights: list[float]) -> None:
    """Compute order, levels and critical path with networkx, on a graph that is already built."""
    list(nx.topological_sort(graph))
    list(nx.topological_generations(graph))
    for _, child, attributes in graph.edges(data=True):
        attributes["weight"] = weights[child]
    nx.dag_longest_path(graph)


def built(size: int, parents: np.ndarray, children: np.ndarray) -> "nx.DiGraph[int]":
    """Return the graph as a networkx graph."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from(zip(parents.tolist(), children.tolist(), strict=True))
    return graph


def compare(sizes: list[int]) -> None:
    """Print one line per size: our seconds (with building), networkx's (without and with), and the ratios."""
    print("order, levels and critical path, 3 dependencies a task (Tonnage's time includes building the graph)")
    columns = f"{'tasks':>10} {'tonnage s':>10} {'us/task':>8} {'networkx s':>11} {'+ building':>11}"
    print(f"{columns} {'ratio':>7} {'+ building':>11}")
    ours(20_000, *dependencies(20_000), np.ones(20_000))  # load the compiled kernels once
    for size in sizes:
        parents, children = dependencies(size)
        weights = np.random.default_rng(1).random(size)
        mine = min(timed(lambda: ours(size, parents, children, weights)) for _ in range(3))  # noqa: B023
        building = time.perf_counter()
        graph = built(size, parents, children)
        building = time.perf_counter() - building
        other = timed(lambda: theirs(graph, weights.tolist()))  # noqa: B023
        print(
            f"{size:>10,} {mine:>10.3f} {mine / size * 1e6:>8.2f} {other:>11.2f} {building:>11.2f}"
            f" {other / mine:>6.0f}x {(other + building) / mine:>10.0f}x"
        )


def reachability(sizes: list[int]) -> None:
    """Print how counting descendants and the transitive reduction scale."""
    print("\nexact number of descendants of every task, and transitive reduction (seconds)")
    print(f"{'tasks':>10} {'descendants':>12} {'reduction':>10}")
    for size in sizes:
        graph = Graph.from_edges(size, *dependencies(size))
        counting = timed(lambda: graph.descendants)  # noqa: B023
        reducing = timed(graph.reduced)
        print(f"{size:>10,} {counting:>12.2f} {reducing:>10.2f}")


def whole_workflow(size: int) -> None:
    """Build a workflow of tasks with names, commands and run times, and compute everything that `show` prints."""
    parents, children = dependencies(size)
    seconds = np.random.default_rng(2).random(size).tolist()
    start = time.perf_counter()
    tasks = [
        Task(
            f"task-{number}", f"./simulate --seed {number}", "simulate", expected=Amounts.of(wall_time=seconds[number])
        )
        for number in range(size)
    ]
    made = time.perf_counter()
    workflow = Workflow.build("benchmark", tasks, (parents, children))
    _ = workflow.graph.order, workflow.graph.widths, workflow.critical_path, workflow.categories
    asked = time.perf_counter()
    print(f"{size:>10,} {made - start:>10.2f} {asked - made:>32.2f} {format_bytes(peak_memory()):>12}")


def read_dagman(name: str) -> None:
    """Read a file, named after its number of nodes, and print how long it took."""
    path = Path(name)
    Graph.from_edges(20_000, *dependencies(20_000))  # load the compiled kernels first
    seconds = timed(lambda: read(path))
    size = int(path.stem)
    file = format_bytes(path.stat().st_size)
    print(f"{size:>10,} {file:>10} {seconds:>8.2f} {seconds / size * 1e6:>8.1f} {format_bytes(peak_memory()):>12}")


def peak_memory() -> int:
    """Return this process's peak memory; ru_maxrss would be that of its larger parent, which survives exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def alone(function: Callable[..., None], argument: object) -> None:
    """Run a function of this module in a separate process, so that its memory is measured alone."""
    sys.stdout.flush()
    code = f"import sys; from pathlib import Path; sys.path.insert(0, {str(HERE)!r}); import graphs; "
    subprocess.run([sys.executable, "-c", f"{code} graphs.{function.__name__}({argument!r})"], check=True)


def workflows(sizes: list[int]) -> None:
    """Print time and memory for whole workflows."""
    print("\na whole workflow: names, commands, run times; a process of its own each")
    print(f"{'tasks':>10} {'make tasks':>10} {'build, order, levels, crit. path':>32} {'peak memory':>12}")
    for size in sizes:
        alone(whole_workflow, size)


def dagman(sizes: list[int]) -> None:
    """Print how long reading a DAGMan file takes: one JOB, one VARS and one PARENT line per node."""
    print("\nreading a DAGMan file (JOB, VARS and PARENT line a node, one named submit description)")
    print(f"{'nodes':>10} {'file':>10} {'seconds':>8} {'us/node':>8} {'peak memory':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.dag"
            write_dagman(path, size)
            alone(read_dagman, str(path))


def write_dagman(path: Path, size: int) -> None:
    """Write a DAGMan file with `size` nodes."""
    parents, children = dependencies(size)
    above: list[set[int]] = [set() for _ in range(size)]
    for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
        above[child].add(parent)
    with path.open("w") as out:
        out.write(
            'SUBMIT-DESCRIPTION work {\n executable = sim\n arguments = "$(a) $(b)"\n request_memory = $(mem)\n}\n'
        )
        for node in range(size):
            out.write(f'JOB n{node} work\nVARS n{node} a="{node}" b="x" mem="{node % 7 * 100} MB"\n')
            if above[node]:
                out.write(f"PARENT {' '.join(f'n{parent}' for parent in sorted(above[node]))} CHILD n{node}\n")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes only, to see that it works")
    quick = parser.parse_args().quick
    print(
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, networkx {nx.__version__}, numpy {np.__version__}\n"
    )
    compare([1000, 10_000] if quick else [10_000, 100_000, 1_000_000])
    reachability([1000, 10_000] if quick else [10_000, 100_000])
    workflows([1000, 10_000] if quick else [10_000, 100_000, 1_000_000])
    dagman([1000, 10_000] if quick else [10_000, 100_000, 1_000_000])


if __name__ == "__main__":
    main()
