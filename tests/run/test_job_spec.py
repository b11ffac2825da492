"""The job spec of a packed batch job: what is read is what was written."""

from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import decisions, edges, workflows
from tonnage.errors import InputError
from tonnage.run.events import Carried
from tonnage.run.machines import Machine
from tonnage.run.pilot.job_spec import JOB_SPEC, JobSpec
from tonnage.run.retry_rules import Rules

names = st.text(max_size=8)
machines = st.builds(Machine, st.floats(1, 256), st.floats(1, 1e15), st.just(inf) | st.floats(1, 1e15))


@st.composite
def cargoes(draw: st.DrawFn) -> JobSpec:
    tasks = draw(workflows(special=False)).tasks
    some = st.integers(0, len(tasks) - 1)
    return JobSpec(
        run=draw(names),
        home=draw(names),
        token=draw(names),
        number=draw(st.integers(1, 99)),
        first_attempt=draw(st.integers(1, 10**6)),
        attempts=draw(st.integers(0, 10**6)),
        tasks=tasks,
        places=tuple(draw(st.permutations(range(len(tasks))))),
        nodes=draw(st.dictionaries(names, machines, max_size=3)),
        dependencies=tuple(draw(edges(len(tasks)))),
        awaited=draw(st.dictionaries(some, st.lists(st.tuples(st.integers(1, 9), names), max_size=3).map(tuple))),
        carried=draw(st.dictionaries(some, st.builds(Carried, st.integers(0, 9), st.none() | decisions()))),
        strategy=draw(names),
        overridden=draw(st.none() | st.frozensets(names, max_size=3)),
        rules=draw(st.builds(Rules, st.integers(0, 9), st.booleans(), st.booleans())),
        sandbox=draw(st.booleans()),
        patience=draw(st.floats(1, 1000)),
    )


@given(cargoes())
def test_what_is_read_is_what_was_written(job_spec: JobSpec) -> None:
    with TemporaryDirectory() as folder:
        job_spec.write(Path(folder))
        assert [path.name for path in Path(folder).iterdir()] == [JOB_SPEC]
        assert JobSpec.read(Path(folder)) == job_spec


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": 1}', "\xff"])
def test_what_is_no_cargo_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / JOB_SPEC).write_text(text, "latin1")
    with pytest.raises(InputError, match="is not the job spec"):
        JobSpec.read(tmp_path)


def test_a_cargo_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        JobSpec.read(tmp_path)
