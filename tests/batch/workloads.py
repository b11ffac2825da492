"""Synthetic workloads, and clusters with all kernels compiled or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from tests.batch.reference import Job
from tonnage import jit
from tonnage.batch import Workload

T = TypeVar("T")

NODES = 8


@contextmanager
def kernels_compiled(compiled: bool) -> Iterator[None]:
    with mock.patch.object(jit, "COMPILE_FROM", 0 if compiled else 10**12):
        yield


def workload(rows: list[tuple[int, int, int, int]], nodes: int = NODES) -> Workload:
    """Jobs of (submit, nodes, run, request)."""
    table = np.array(sorted(rows, key=lambda row: row[0]), np.int64).reshape(-1, 4)
    submit, widths, run, request = np.ascontiguousarray(table.T)
    return Workload(nodes, submit, widths, run, request, np.zeros(len(rows), np.int64))


def several(one: st.SearchStrategy[T], most: int) -> st.SearchStrategy[list[T]]:
    """Lists, half of them short and half long; by default hypothesis draws about five entries."""
    return st.lists(one, max_size=most) | st.lists(one, min_size=most // 2, max_size=most)


@st.composite
def workloads(draw: st.DrawFn, most: int = 25) -> Workload:
    """Few nodes and short times, so that many events fall into the same second."""
    times = st.integers(0, 12)
    rows = draw(several(st.tuples(st.integers(0, 40), st.integers(1, NODES), times, times), most))
    return workload([(submit, nodes, run, max(run + more, 1)) for submit, nodes, run, more in rows])


def rows_of(log: Workload) -> list[tuple[int, int, int, int]]:
    """The inverse of `workload`."""
    return list(zip(log.submit.tolist(), log.nodes.tolist(), log.run.tolist(), log.request.tolist(), strict=True))


def jobs_of(log: Workload, requests: str) -> list[Job]:
    columns = (log.submit, log.nodes, log.requests(requests), log.run)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Job(number, False, *row) for number, row in enumerate(rows)]
