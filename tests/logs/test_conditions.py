"""Conditions on attempts."""

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archive.attempts import attempts
from tonnage.errors import InputError
from tonnage.jobs import Amounts, Attempt, Resource
from tonnage.logs.conditions import OPERATORS, Condition, value_of
from tonnage.units import Bytes

# What Python says to the signs that users write.
SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
SIZES = ["memory", "disk", "requested_memory", "requested_disk", "allocated_memory", "allocated_disk", "input_bytes"]
TIMES = ["wall_time", "cpu_time", "requested_wall_time", "allocated_wall_time"]
CORES = ["cores", "requested_cores", "allocated_cores"]
WHOLE = ["exit_status", "signal", "number"]
NAMES = [*SIZES, *TIMES, *CORES, *WHOLE, "processes"]


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        Condition.parse(text)
    return caught.value.report()


def having(name: str, value: float) -> Attempt:
    """Return an attempt of which this is known, and nothing else."""
    kind, _, resource = name.partition("_")
    if kind in ("requested", "allocated"):
        return Attempt(**{kind: Amounts(**{resource: value})})  # type: ignore[arg-type]
    if name in list(Resource):
        return Attempt(used=Amounts(**{name: value}))  # type: ignore[arg-type]
    return Attempt(**{name: value})  # type: ignore[arg-type]


def unit(name: str) -> str:
    return "B" if name in SIZES else "s" if name in TIMES else ""


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", NAMES)
def test_every_amount_can_be_compared_by_every_sign(name: str, sign: str) -> None:
    condition = Condition.parse(f"{name}{sign}5{unit(name)}")
    for value in (4, 5, 6):
        assert condition.holds(having(name, value)) is SIGNS[sign](value, 5)
    assert value_of(having(name, 5), name) == 5


def test_every_sign_has_an_operator_for_the_database() -> None:
    assert {Condition.parse(f"cores{sign}1").operator for sign in SIGNS} == set(OPERATORS)


@given(attempts, st.sampled_from(NAMES), st.sampled_from(sorted(SIGNS)), st.integers(0, 2**40))
def test_a_condition_holds_where_python_says_so(attempt: Attempt, name: str, sign: str, bound: int) -> None:
    value = value_of(attempt, name)
    expected = value is not None and SIGNS[sign](value, bound)
    assert Condition.parse(f"{name} {sign} {bound}{unit(name)}").holds(attempt) is expected


@given(attempts.filter(lambda attempt: attempt.used.memory is not None), st.sampled_from(sorted(SIGNS)))
def test_the_bound_itself_is_met_exactly(attempt: Attempt, sign: str) -> None:
    condition = Condition.parse(f"memory{sign}{attempt.used.memory}B")
    assert condition.holds(attempt) is SIGNS[sign](0, 0)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "number"])
def test_what_is_unknown_never_holds(name: str, sign: str) -> None:
    assert not Condition.parse(f"{name}{sign}0{unit(name)}").holds(Attempt())


@pytest.mark.parametrize(
    ("text", "name", "sign", "value"),
    [
        ("memory>4GB", "memory", ">", 4e9),
        ("memory > 4 GiB", "memory", ">", 2**32),
        ("  disk<=1.5TB  ", "disk", "<=", 1.5e12),
        ("input_bytes=0", "input_bytes", "=", 0),
        ("wall_time>=1h30m", "wall_time", ">=", 5400),
        ("cpu_time<02:00:00", "cpu_time", "<", 7200),
        ("requested_wall_time==90", "requested_wall_time", "=", 90),
        ("cores!=0.5", "cores", "!=", 0.5),
        ("requested_cores>=8 cores", "requested_cores", ">=", 8),
        ("exit_status!=0", "exit_status", "!=", 0),
        ("exit_status=-1", "exit_status", "=", -1),
        ("processes>100", "processes", ">", 100),
    ],
)
def test_amounts_have_the_units_of_their_kind(text: str, name: str, sign: str, value: float) -> None:
    assert Condition.parse(text) == Condition(name, sign, value)


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("mem", "memory"),
        ("memroy", "memory"),
        ("walltime", "wall_time"),
        ("request_memory", "requested_memory"),
        ("exitstatus", "exit_status"),
        ("input_size", "input_bytes"),
    ],
)
def test_an_unknown_name_suggests_a_close_one(name: str, close: str) -> None:
    assert refused(f"{name}>1") == f'"{name}" is not an amount that can be compared\n  did you mean {close}?'


@pytest.mark.parametrize("name", ["xyzzy", "category", "é"])
def test_a_name_like_none_gets_the_list(name: str) -> None:
    report = refused(f"{name}>1")
    assert report.startswith(f'"{name}" is not an amount that can be compared\n  use one of ')
    assert all(known in report for known in NAMES)


@pytest.mark.parametrize("text", ["", "memory", ">4GB", "memory>", "memory 4GB", "memory~4GB", "a b>1", "memory>\n"])
def test_what_is_no_condition_is_refused_with_an_example(text: str) -> None:
    assert refused(text) == f'"{text}" is not a condition\n  use one such as memory>4GB or exit_status!=0'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory>4", "a unit is missing"),
        ("memory>4G", "ambiguous"),
        ("memory>-4GB", "is negative"),
        ("memory=>4GB", '">4GB" is not an amount of bytes'),
        ("wall_time>1:30", "ambiguous"),
        ("cores>many", "is not a number of cores"),
        ("exit_status=1.5", '"1.5" is not a whole number'),
        ("exit_status=KILL", '"KILL" is not a whole number'),
        (f"exit_status>1{'0' * 400}", "is too large"),
        (f"number>{'9' * 5000}", "is not a whole number"),
        (f"memory>{'9' * 5000}B", "is too large"),
    ],
)
def test_an_amount_that_cannot_be_right_is_refused(text: str, message: str) -> None:
    assert message in refused(text)


@given(st.text(max_size=12) | st.tuples(st.sampled_from(NAMES), st.sampled_from(sorted(SIGNS)), st.text()).map("".join))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        condition = Condition.parse(text)
    except InputError as error:
        assert error.report()
        return
    assert condition.name in NAMES
    assert condition.holds(Attempt(used=Amounts(memory=Bytes(1)))) in (True, False)
