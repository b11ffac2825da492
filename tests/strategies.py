"""Random graphs, tasks and workflows for property tests."""

from hypothesis import settings
from hypothesis import strategies as st

from tonnage.jobs import Amounts, Decision, Resource
from tonnage.units import Bytes
from tonnage.workflow import SpecialTask, Task, Workflow

__all__ = ["decisions", "edges", "examples", "graphs", "tasks", "workflows"]

Edge = tuple[int, int]


def examples(number: int) -> settings:
    """Try this many examples, scaled up under a profile that tries more."""
    usual = settings.get_profile("default").max_examples
    return settings(max_examples=max(1, number * settings().max_examples // usual))


@st.composite
def edges(draw: st.DrawFn, size: int) -> list[Edge]:
    """Dependencies among `size` tasks without a cycle, in any numbering, with duplicates."""
    if size < 2:
        return []
    numbering = draw(st.permutations(range(size)))
    place = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(place, place).filter(lambda pair: pair[0] != pair[1]), max_size=4 * size))
    return [(numbering[min(pair)], numbering[max(pair)]) for pair in pairs]


@st.composite
def graphs(draw: st.DrawFn, max_size: int = 24) -> tuple[int, list[Edge]]:
    """A number of tasks and their dependencies."""
    size = draw(st.integers(0, max_size))
    return size, draw(edges(size))


_letters = st.sampled_from("abcXYZ019_.-+/é")
_words = st.text(_letters, min_size=1, max_size=8)
# Troublesome for shells and file formats: quotes, dollars, braces, backslashes, line breaks, comment signs.
_commands = st.text(
    st.sampled_from(list("ab 0'\"$(){}[]<>|&;#\\/%@=:,.*?!~^`+-\n\té")), min_size=1, max_size=40
).filter(lambda command: command.strip() == command)
_files = st.lists(st.text(st.sampled_from("abcXYZ019_.-/"), min_size=1, max_size=8), unique=True, max_size=3).map(tuple)
_amount = st.none() | st.integers(1, 2**50).map(Bytes)
_time = st.none() | st.floats(0, 1e7, allow_nan=False).map(lambda value: round(value, 3))

amounts = st.builds(
    Amounts.of,
    cores=st.none() | st.integers(1, 128) | st.sampled_from([0.5, 2.5]),
    memory=_amount,
    disk=_amount,
    wall_time=_time,
    cpu_time=_time,
    processes=st.none() | st.integers(1, 1000),
)

_fraction = st.none() | st.floats(0, 1)


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Decision, ...]:
    """The allocation of an attempt, for some resources."""
    made = []
    for resource in draw(st.lists(st.sampled_from(list(Resource)[:4]), unique=True)):
        ladder = tuple(sorted(draw(st.lists(st.floats(0.5, 1e15), min_size=1, max_size=4))))
        rung = draw(st.integers(0, len(ladder) - 1))
        samples, reason = draw(st.integers(0, 10**6)), draw(st.text(max_size=20))
        made.append(Decision(resource, ladder, "auto", samples, reason, rung, draw(_fraction), draw(_fraction)))
    return tuple(made)


@st.composite
def tasks(draw: st.DrawFn, name: str, files: bool) -> Task:
    """A task with this name; with `files`, it may read and write some."""
    return Task(
        name=name,
        command=draw(st.none() | _commands),
        category=draw(_words | st.sampled_from(["two words", "task"])),
        inputs=draw(_files) if files else (),
        outputs=draw(_files) if files else (),
        request=draw(st.just(Amounts()) | amounts),
        expected=draw(st.just(Amounts()) | amounts),
        input_bytes=draw(_amount),
        priority=draw(st.none() | st.integers(-20, 20)),
        gpus=draw(st.integers(0, 8)),
        directory=draw(st.none() | st.sampled_from(["sub", "sub/folder", "my folder", "./sub", "sub//folder/"])),
    )


@st.composite
def workflows(draw: st.DrawFn, files: bool = True, special: bool = True) -> Workflow:
    """A workflow whose tasks contain everything that is hard to express in a file format."""
    names = draw(
        st.lists(_words | st.sampled_from(["PARENT", "all_nodes", "a b"]), unique=True, min_size=1, max_size=6)
    )
    made = [draw(tasks(name, files)) for name in names]
    beside: list[SpecialTask] = []
    if special and len(made) > 1 and draw(st.booleans()):
        beside = [SpecialTask(draw(st.sampled_from(["final", "provisioner", "service"])), made.pop())]
    pairs = draw(edges(len(made)))
    return Workflow.build("made", made, ([a for a, _ in pairs], [b for _, b in pairs]), special=beside)
