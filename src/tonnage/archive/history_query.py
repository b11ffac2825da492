"""The query for what an archive knows about the tasks of a workflow, for both databases.

An attempt counts in the closest of these places in which its category has a finished attempt: this very workflow, a
workflow of its name in its folder, a workflow with at least half of its commands (the newest of them).
"""

from enum import IntEnum

__all__ = ["HISTORY_QUERY", "Kind"]


class Kind(IntEnum):
    """What a row of the answer is about: an attempt, a task in all its attempts, or jobs of other workflows."""

    ATTEMPT = 0
    TASK = 1
    OTHERS = 2


_FINISHED = "({0}.outcome IS NULL OR {0}.outcome = 'done')"

_QUERY = """
WITH wanted AS (SELECT value AS category FROM {categories}),
names AS (SELECT value AS name FROM {names}),
alike AS (
    SELECT workflow_checksum, max(attempts.id) AS newest FROM tasks JOIN attempts ON attempts.task = tasks.identity
    WHERE tasks.name IN (SELECT value FROM {tasks}) AND tasks.command IN (SELECT value FROM {commands})
    AND workflow_checksum IS NOT NULL
    GROUP BY workflow_checksum HAVING count(DISTINCT tasks.command) >= CAST(:enough AS INTEGER)
),
places AS (
    SELECT id, 0 AS place FROM attempts WHERE workflow_checksum = :checksum
    UNION ALL
    SELECT id, 1 FROM attempts WHERE workflow = :workflow AND (
        CAST(:anywhere AS INTEGER) = 1
        OR source IN (
            SELECT id FROM sources WHERE substr(path, 1, length(CAST(:folder AS TEXT))) = :folder
            AND (
                substr(path, length(CAST(:folder AS TEXT)) + 1) NOT LIKE '%/%'
                OR substr(path, length(CAST(:folder AS TEXT)) + 1) LIKE '.tonnage/%'
            )
        )
    )
    UNION ALL
    SELECT attempts.id, 9000000000000000000 - alike.newest FROM attempts
    JOIN alike ON alike.workflow_checksum = attempts.workflow_checksum
),
ours AS (
    SELECT attempts.id, category, place, {finished} AS finished, task, memory,
    coalesce(ended, started, submitted) AS moment
    FROM places JOIN attempts ON attempts.id = places.id
    WHERE category IS NOT NULL
    AND (CAST(:every AS INTEGER) = 1 OR category IN (SELECT category FROM wanted))
),
closest AS (SELECT category, min(place) AS place FROM ours WHERE finished GROUP BY category),
chosen AS (
    SELECT ours.id, ours.category,
    row_number() OVER (PARTITION BY ours.category ORDER BY moment DESC NULLS LAST, ours.id DESC) AS number
    FROM ours JOIN closest ON closest.category = ours.category AND closest.place = ours.place
),
recent AS (
    SELECT category, executable, memory FROM attempts
    WHERE id > (SELECT max(id) FROM attempts) - :recent AND memory IS NOT NULL AND EXISTS (SELECT 1 FROM names)
),
strangers AS (
    SELECT category AS name, memory FROM recent WHERE category IN (SELECT name FROM names)
    UNION ALL
    SELECT executable, memory FROM recent
    WHERE executable IN (SELECT name FROM names) AND executable <> coalesce(category, '')
),
ranked AS (
    SELECT name, memory, row_number() OVER (PARTITION BY name ORDER BY memory) AS number,
    count(*) OVER (PARTITION BY name) AS jobs FROM strangers
)
SELECT {attempt} AS kind, chosen.category AS name, NULL AS task, chosen.number AS number, attempts.id,
{finished} AS finished,
CASE WHEN attempts.exhausted IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM attempts AS other WHERE other.task = attempts.task
    AND (other.run = attempts.run OR (other.run IS NULL AND attempts.run IS NULL)) AND {other_finished}
) THEN attempts.exhausted END AS exhausted,
input_bytes, cores, attempts.memory, disk, wall_time, cpu_time, processes,
requested_cores, requested_memory, requested_disk, requested_wall_time
FROM chosen JOIN attempts ON attempts.id = chosen.id WHERE chosen.number <= :most
UNION ALL
SELECT {task}, NULL, task, 0, 0, NULL, NULL, NULL, NULL, max(memory),
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM ours WHERE finished AND memory > 0 AND task IS NOT NULL GROUP BY task
UNION ALL
SELECT {others}, name, NULL, 0, max(jobs), NULL, NULL, NULL, NULL, max(memory),
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM ranked WHERE jobs >= :several AND 4 * number <= 3 * jobs + 3 GROUP BY name
ORDER BY kind, name, number DESC
"""


def _for(json_list: str) -> str:
    """Return the query; `json_list` reads the list of texts in a parameter, as the database has it."""
    lists = {name: json_list.format(f":{name}") for name in ("commands", "categories", "names", "tasks")}
    return _QUERY.format(
        finished=_FINISHED.format("attempts"),
        other_finished=_FINISHED.format("other"),
        attempt=int(Kind.ATTEMPT),
        task=int(Kind.TASK),
        others=int(Kind.OTHERS),
        **lists,
    )


HISTORY_QUERY = {
    "sqlite": _for("json_each({})"),
    "postgresql": _for("json_array_elements_text(CAST({} AS json)) AS list(value)"),
}
"""The query by the name of the database's dialect; the parameters are those of `Wanted`."""
