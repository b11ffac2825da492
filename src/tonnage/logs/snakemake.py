"""Snakemake benchmarks: one small table, or one JSON object per line, for each finished job.

Memory and I/O are in MiB. Memory is max_pss if it was measured, else max_rss, which counts memory shared by processes
more than once. Only extended benchmarks name the rule; otherwise it is the name of the folder (``align`` for
``benchmarks/align/sample1.tsv``) or, if that folder holds all benchmarks, the file's name up to its first dot
(``align`` for ``benchmarks/align.sample1.tsv``, ``align_sample1`` for ``benchmarks/align_sample1.tsv``). Each row
written by ``repeat()`` is a separate attempt. Benchmarks do not say when a job ran.
"""

import ast
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from tonnage.files import stem
from tonnage.jobs import Amounts, Attempt, Outcome
from tonnage.logs.amounts import is_unknown, number, scaled
from tonnage.logs.json_values import parse
from tonnage.logs.log import Entry, Hints, Log, UnusableError
from tonnage.units import Bytes

__all__ = ["read", "recognises"]

_Record: TypeAlias = Mapping[str, object]
_Rows: TypeAlias = Iterator[tuple[int, _Record | UnusableError]]

_FIRST = ("s", "h:m:s")
_SHARED_FOLDERS = frozenset(("", "benchmark", "benchmarks", "bench", "log", "logs"))
_MIB = 2**20
# The names under which a rule can request a resource, with their units; times are in minutes.
_MEMORY = {"mem_mb": 10**6, "mem_mib": _MIB}
_DISK = {"disk_mb": 10**6, "disk_mib": _MIB}
_TIME = {"runtime": 60}
_LONGEST = 2**16  # characters: enough for a job's resources or input files, but not to keep a parser busy
_TYPED = frozenset(
    ["s", "h:m:s", "max_rss", "max_pss", "cpu_time", "rule_name", "wildcards", "threads", "resources", "input_size_mb"]
)


def recognises(head: str) -> bool:
    """Whether the first line names a benchmark's columns, or is an object with these names."""
    first = head.split("\n", 1)[0]
    if not first.startswith("{"):
        return _is_header(first)
    record = _object(first)
    return record is not None and all(name in record for name in _FIRST)


def read(log: Log, hints: Hints) -> Iterator[Entry]:
    """Yield an attempt for each row."""
    lines = enumerate(log.lines(), start=1)
    first = next(lines, (1, ""))
    if not recognises(first[1]):
        raise log.error(f"is not a Snakemake benchmark: its first line lacks the columns {' and '.join(_FIRST)}", 1)
    is_table = _is_header(first[1])
    for line, row in _cells(first[1].split("\t"), lines) if is_table else _objects(chain([first], lines)):
        try:
            if isinstance(row, UnusableError):
                raise row
            yield _attempt(row, log.path, hints)
        except UnusableError as problem:
            yield problem.at(line)


def _is_header(line: str) -> bool:
    return tuple(line.rstrip("\r").split("\t")[:2]) == _FIRST


def _cells(header: list[str], lines: Iterable[tuple[int, str]]) -> _Rows:
    for line, text in lines:
        if not text.strip():
            continue
        cells = text.split("\t")
        if len(cells) == len(header):
            yield line, dict(zip(header, cells, strict=True))
        else:
            yield line, UnusableError(f"expected {len(header)} columns", f"{len(cells)} columns")


def _objects(lines: Iterable[tuple[int, str]]) -> _Rows:
    for line, text in lines:
        if text.strip():
            yield line, _object(text) or UnusableError("it is not a JSON object", text[:80])


def _object(text: str) -> _Record | None:
    try:
        found = parse(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _attempt(record: _Record, path: Path, hints: Hints) -> Attempt:
    seconds = _number(record, "s")
    if seconds is None:
        raise UnusableError("its run time is unknown")
    rule = _text(record.get("rule_name"))
    category = rule or _category(path)
    pss, rss = _mebibytes(record, "max_pss"), _mebibytes(record, "max_rss")
    memory = rss if pss is None else pss
    resources, sizes = _mapping(record.get("resources")), record.get("input_size_mb")
    task = _task(rule, record) or stem(path)
    return Attempt(
        row=json.dumps({"category": category, "task": task, **record}, sort_keys=True),  # the path is a part of it
        run=hints.label,
        task=task,
        category=category,
        outcome=Outcome.DONE,  # no benchmark is written for a failed job
        requested=Amounts.of(
            memory=_asked(resources, _MEMORY), disk=_asked(resources, _DISK), wall_time=_asked(resources, _TIME)
        ),
        allocated=Amounts.of(cores=_number(record, "threads")),
        used=Amounts.of(
            memory=memory,
            wall_time=seconds,
            cpu_time=_cpu_seconds(record, seconds, measured=memory is not None),
        ),
        memory_method=None if memory is None else "rss" if pss is None else "pss",
        input_bytes=_input_bytes(sizes),
        inputs=tuple(_mapping(sizes)),
        raw={name: value for name, value in record.items() if name not in _TYPED and _text(value)},
    )


def _text(value: object) -> str:
    """Return a value as text without lone surrogates; empty if unknown."""
    text = "" if value is None else str(value).strip().encode("utf-8", "replace").decode()
    return "" if is_unknown(text) else text


def _number(record: _Record, name: str) -> float | None:
    return number(_text(record.get(name)), name)


def _mebibytes(record: _Record, name: str) -> float | None:
    """Return a memory peak in bytes; 0 means that the job ended before it was sampled."""
    return scaled(_text(record.get(name)), name, _MIB) or None


def _mapping(value: object) -> dict[str, object]:
    """Parse a mapping such as ``{'mem_mb': 1000}``: tables have it as Python prints it, JSON as an object."""
    if isinstance(value, str) and len(value) <= _LONGEST:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return {}
    return {_text(name): one for name, one in value.items()} if isinstance(value, dict) else {}


def _category(path: Path) -> str:
    folder = path.parent.name
    return path.name.split(".", 1)[0] or path.name if folder.lower() in _SHARED_FOLDERS else folder


def _task(rule: str, record: _Record) -> str:
    """Return a job's name: its rule and any wildcards, sorted because JSON sorts them too."""
    wildcards = sorted(_mapping(record.get("wildcards")).items())
    return " ".join([rule, *(f"{name}={_text(value)}" for name, value in wildcards)]).strip()


def _cpu_seconds(record: _Record, seconds: float, *, measured: bool) -> float | None:
    """Return the CPU time; benchmarks before Snakemake 6 only had the load, in percent of a core."""
    if not measured:
        return None  # 0 means that it was never sampled
    if "cpu_time" in record:
        return _number(record, "cpu_time")
    load = _number(record, "mean_load")
    return None if load is None else load / 100 * seconds


def _asked(resources: _Record, names: Mapping[str, int]) -> float | None:
    """Return how much a rule requested; anything but a number (``<TBD>``) was not known when it was submitted."""
    for name, unit in names.items():
        with suppress(UnusableError):
            amount = scaled(_text(resources.get(name)), name, unit)
            if amount is not None:
                return amount
    return None


def _input_bytes(value: object) -> Bytes | None:
    """Return the total size of the input files, which are listed one by one; None if any is unknown."""
    listed = list(_mapping(value).values()) or [value]
    with suppress(UnusableError):
        sizes = [scaled(_text(size), "input_size_mb", _MIB) for size in listed]
        known = [size for size in sizes if size is not None]
        return Bytes(round(sum(known))) if len(known) == len(listed) else None
    return None
