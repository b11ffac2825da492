"""The tables of a journal, and the statements that write attempts into them."""

from tonnage.jobs import GIVEN, Resource
from tonnage.run.events import NOT_RETRIED

__all__ = ["INSERT_START", "SCHEMA", "UPDATE_END", "UPDATE_REVIVED", "VERSION"]

VERSION = "5"  # changes with the tables below, and with the names of the files next to the journal
SCHEMA = f"""
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
INSERT INTO run VALUES ('version', '{VERSION}');
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL,
    command TEXT, line INTEGER, -- for people; a line only if the workflow is a list of commands
    fingerprint BLOB NOT NULL, -- of its command and of the files that it reads from outside of the workflow
    done INTEGER,              -- the attempt that made it done; 0 if it was up to date before the run
    dropped INTEGER NOT NULL DEFAULT 0, -- whether the workflow does not have it any more
    refused TEXT               -- why it was given up without an attempt
);
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY, resource TEXT NOT NULL, strategy TEXT NOT NULL, samples INTEGER NOT NULL,
    ladder TEXT NOT NULL, rung INTEGER NOT NULL, reason TEXT NOT NULL, expected_waste REAL, expected_retries REAL
);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, number INTEGER NOT NULL,
    machine INTEGER NOT NULL,  -- on a cluster, its batch job
    host TEXT,                 -- where it ran, if not here
    submitted REAL,            -- on a cluster, when it was: until it is known when it started, that stands below, too
    started REAL NOT NULL, input_bytes REAL,
    {", ".join(f"{one} REAL, {one}_decision INTEGER REFERENCES decisions" for one in GIVEN)},
    ended REAL, outcome TEXT, exhausted TEXT, exit_status INTEGER, signal INTEGER,
    {", ".join(f"used_{one} REAL" for one in Resource)},
    memory_method TEXT, lower_bounds TEXT, stdout TEXT, stderr TEXT,
    note TEXT,                 -- what went wrong, and what becomes of the task
    given_up INTEGER,          -- whether the task was given up after it
    facts TEXT                 -- what a batch system measured beside our monitor, as JSON
);
CREATE TABLE adjustments (
    attempt INTEGER NOT NULL REFERENCES attempts, at REAL NOT NULL,
    action TEXT NOT NULL,      -- grow, pause, resume or stop
    memory REAL,               -- what it holds from now on, if it grows
    more REAL NOT NULL,        -- how much more that is than before
    reason TEXT NOT NULL,
    PRIMARY KEY (attempt, at, action)
) WITHOUT ROWID;
CREATE TABLE batch_jobs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    native TEXT,               -- the cluster's number; NULL until it has answered
    packed INTEGER NOT NULL,   -- whether it carries many tasks, and starts them by itself
    first_attempt INTEGER NOT NULL, attempts INTEGER NOT NULL, -- the numbers that its attempts have
    tasks INTEGER NOT NULL, nodes INTEGER NOT NULL, cores INTEGER, memory REAL, disk REAL, seconds REAL,
    reason TEXT NOT NULL, estimated_wait REAL,
    submitted REAL NOT NULL, started REAL, ended REAL,
    note TEXT                  -- what became of it
);
"""  # noqa: S608 (our own names)
_START_COLUMNS = ["id", "task", "number", "machine", "submitted", "started", "input_bytes"] + [
    name for one in GIVEN for name in (str(one), f"{one}_decision")
]
_END_COLUMNS = [
    *("started", "host", "ended", "outcome", "exhausted", "exit_status", "signal"),
    *(f"used_{one}" for one in Resource),
    *("memory_method", "lower_bounds", "stdout", "stderr", "note", "given_up", "facts"),
]
INSERT_START = f"INSERT INTO attempts ({', '.join(_START_COLUMNS)}) VALUES ({', '.join('?' * len(_START_COLUMNS))})"  # noqa: S608 (our own names)
UPDATE_END = (
    "UPDATE attempts SET started = coalesce(?, started), "  # noqa: S608 (our own names)
    f"{', '.join(f'{name} = ?' for name in _END_COLUMNS[1:])} WHERE id = ?"
)
UPDATE_REVIVED = (
    f"UPDATE attempts SET given_up = 0, note = replace(note, '{NOT_RETRIED}', ?) "  # noqa: S608 (our own words)
    "WHERE task = ? AND given_up"
)
