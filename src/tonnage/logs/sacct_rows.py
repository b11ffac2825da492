"""The rows of sacct's table.

sacct escapes nothing: where a name or a comment holds the delimiter, its row has too many cells. They are put together
again so that every column holds what it can hold; a row for which there is more than one way stays in doubt.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.logs.log import UnusableError

__all__ = ["CATEGORY", "COLUMNS", "IDS", "Row", "Table"]

IDS = ("JobIDRaw", "JobID")
CATEGORY = "JobName"
_ID = re.compile(r"(\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?)(?:\.([\w+]+))?")
_COUNT = r"[\d.]*[KMGTP]?|UNLIMITED|Partition_Limit"
_CLOCK = r"[\d:.-]*|UNLIMITED|Partition_Limit|INVALID"
_MOMENT = r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|\d*|None|Unknown"
_WORD = r"[\w.@$+\\-]*"
COLUMNS = {
    name: re.compile(pattern)
    for pattern, names in {
        _ID.pattern: "JobID JobIDRaw",
        r"[A-Z_]+\+?(?: by \w+)?": "State",
        r"(?:\d+:\d+)?": "ExitCode DerivedExitCode",
        _MOMENT: "Submit Eligible Start End",
        _CLOCK: "Elapsed Timelimit TotalCPU UserCPU SystemCPU CPUTime Suspended Planned Reserved AveCPU MinCPU",
        _COUNT: "ElapsedRaw TimelimitRaw CPUTimeRAW AllocCPUS ReqCPUS NCPUS NNodes AllocNodes NTasks Restarts UID"
        " GID Priority MaxRSS AveRSS MaxVMSize AveVMSize MaxPages AvePages MaxDiskRead AveDiskRead MaxDiskWrite"
        " AveDiskWrite",
        r"[\d.]*[KMGTP]?[nc]?": "ReqMem",
        r"(?:[\w/:-]+=[\w.:-]*(?:,[\w/:-]+=[\w.:-]*)*)?": "AllocTRES ReqTRES TRESUsageInAve TRESUsageInMax"
        " TRESUsageInMin TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMin TRESUsageOutTot",
        _WORD: "User Account Partition QOS Cluster Group",
        r"None assigned|[\w.,\[\]-]*": "NodeList",
    }.items()
    for name in names.split()
}
"""What columns can hold; all others hold any text."""
_LONGEST_HEADER = 10_000  # letters: all columns that sacct has are about 1,500
_MOST_SURPLUS = 64  # cells: a row with more of them costs more time than it is worth


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a job, or one of its steps."""

    line: int
    text: str
    cells: Mapping[str, str]
    job: str
    """The number of the job."""
    step: str | None
    """The name of the step; None in the row of the job itself."""
    doubt: UnusableError | None = None
    """Why it cannot be used, if its cells could not be told apart."""

    def has_times(self) -> bool:
        """Whether it holds dates and times."""
        return any(":" in self.cells.get(name, "") for name in ("Submit", "Start", "End"))


@dataclass(frozen=True, slots=True)
class Table:
    """The columns, and what stands between them."""

    names: tuple[str, ...]
    delimiter: str
    ends_with_delimiter: bool
    """As with ``sacct -p``."""

    @classmethod
    def of(cls, header: str) -> "Table | None":
        """Return the columns that a first line names: what stands between the same words each time is the delimiter."""
        if len(header) > _LONGEST_HEADER:
            return None
        header = header.replace('"', "")
        for delimiter in dict.fromkeys(re.findall(r"(?<=[A-Za-z])[^A-Za-z]+(?=[A-Za-z])", header)):
            names = header.split(delimiter)
            last_is_empty = names[-1] == ""
            names = names[:-1] if last_is_empty else names
            # Columns of a fixed width have different numbers of blanks between them.
            if all(names[1:]) and "State" in names and ("JobID" in names or "JobIDRaw" in names):
                return cls(tuple(names), delimiter, last_is_empty)
        return None

    def row(self, line: int, text: str) -> Row:
        """Return a row with its cells by column."""
        cells = self._cells(text)
        surplus = len(cells) - len(self.names)
        if surplus < 0:
            raise UnusableError(f"{len(self.names)} columns were expected", f"{len(cells)} columns")
        if not surplus:
            by_name = dict(zip(self.names, cells, strict=True))
            return Row(line, text, by_name, *_id(by_name))
        doubt = UnusableError("the delimiter stands in a name or a comment: the columns are not certain", text[:200])
        by_name = self._rejoin(cells, surplus) if surplus <= _MOST_SURPLUS else {}
        if not by_name.keys() & {*IDS}:
            raise doubt
        certain = all(name in by_name for name in self.names if name in COLUMNS or name == CATEGORY)
        return Row(line, text, by_name, *_id(by_name), None if certain else doubt)

    def _cells(self, line: str) -> list[str]:
        if self.ends_with_delimiter:
            line = line.removesuffix(self.delimiter)
        if '"' not in line or self.delimiter not in {",", "\t", ";"}:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error as problem:
            raise UnusableError("the row is not a row of CSV", str(problem)) from None

    def _rejoin(self, cells: list[str], surplus: int) -> dict[str, str]:
        """Put too many cells together so that each column holds what it can; leave out what is then not certain."""
        columns = len(self.names)
        # The places where a column may begin, seen from the left; then, from the right, where it may end.
        begins: list[set[int]] = [{0}]
        for column in range(columns):
            begins.append({end for begin in begins[-1] for end in self._ends(column, begin, cells, surplus)})
        row: dict[str, str] = {}
        after = begins[columns] & {len(cells)}
        for column in reversed(range(columns)):
            spans = [
                (begin, end)
                for begin in begins[column]
                for end in self._ends(column, begin, cells, surplus)
                if end in after
            ]
            if len(spans) == 1:
                row[self.names[column]] = self.delimiter.join(cells[slice(*spans[0])])
            after = {begin for begin, _ in spans}
        return dict(reversed(row.items()))

    def _ends(self, column: int, begin: int, cells: list[str], surplus: int) -> list[int]:
        """Return where the cells of a column may end that begins at one of them."""
        pattern = COLUMNS.get(self.names[column])
        ends = range(begin + 1, column + 1 + surplus + 1)
        if pattern is None:
            return list(ends)
        return [end for end in ends if pattern.fullmatch(self.delimiter.join(cells[begin:end]))]


def _id(row: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the number of the job and the name of the step, if it is one."""
    text = (row.get("JobIDRaw") or row.get("JobID", "")).strip()
    found = _ID.fullmatch(text)
    if not found:
        raise UnusableError("it has no JobID", text)
    return found[1], found[2]
