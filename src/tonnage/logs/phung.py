"""The bucketing paper's job logs (Phung et al.): columns separated by `` -- ``, one line per task.

In some of them the header of the last column, the task's tag, is a number. The tag is the category. A 0 stands for a
virtual memory or an average load that was not measured: the synthetic logs have neither.
"""

from collections.abc import Iterator, Mapping

from tonnage.jobs import Amounts, Attempt
from tonnage.logs.amounts import byte_unit, is_unknown, number, scaled
from tonnage.logs.log import Assumed, Entry, Hints, Log, UnusableError

__all__ = ["read", "recognises"]

_BETWEEN = "--"
_COLUMNS = ["taskid", "core", "memory", "virtual_memory", "disk", "time", "average_cores", "tag"]
_SIZES = ("memory", "disk")
_UNIT = "MB"


def recognises(head: str) -> bool:
    """Whether the first line names the columns."""
    return _is_header(head.split("\n", 1)[0])


def _is_header(line: str) -> bool:
    """Whether these are the columns; the first has two spellings, and the last is always the tag."""
    first, *others = _cells(line)
    return first.replace("_", "") == _COLUMNS[0] and others[:-1] == _COLUMNS[1:-1]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(_BETWEEN)]


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each task."""
    lines = enumerate(log.lines(), start=1)
    if not _is_header(next(lines, (1, ""))[1]):
        raise log.error(
            f"is not a log of the bucketing paper: expected the columns {f' {_BETWEEN} '.join(_COLUMNS)}", 1
        )
    units = {name: byte_unit(hints.units.get(name, _UNIT)) for name in _SIZES}
    assumed = [name for name in _SIZES if name not in hints.units]
    if assumed:
        yield Assumed(f"{' and '.join(assumed)} in {_UNIT}")
    for line, text in lines:
        cells = _cells(text)
        if cells == [""]:
            continue
        try:
            yield _attempt(cells, units, hints.label or log.stem)
        except UnusableError as problem:
            yield problem.at(line)


def _attempt(cells: list[str], units: Mapping[str, int], label: str) -> Attempt:
    if len(cells) != len(_COLUMNS):
        raise UnusableError(f"expected {len(_COLUMNS)} columns", f"{len(cells)} columns")
    row = {name: "" if is_unknown(cell) else cell for name, cell in zip(_COLUMNS, cells, strict=True)}
    seconds = number(row["time"], "time")
    load = number(row["average_cores"], "average_cores") or None
    virtual = number(row["virtual_memory"], "virtual_memory") or None
    memory, disk = (scaled(row[name], name, units[name]) for name in _SIZES)
    return Attempt(
        row=f" {_BETWEEN} ".join(cells),
        run=label,
        task=row["taskid"] or None,
        category=row["tag"] or None,
        used=Amounts.of(
            cores=number(row["core"], "core") or None,
            memory=memory,
            disk=disk,
            wall_time=seconds,
            cpu_time=None if load is None or seconds is None else load * seconds,
        ),
        raw={
            name: value
            for name, value in {"virtual_memory": virtual, "average_cores": load}.items()
            if value is not None
        },
    )
