"""Amounts as people write them, in the units of the tool that reads them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.jobs import Resource
from tonnage.size.export import EXPORTERS
from tonnage.size.rounding import rounded_bytes, rounded_down, rounded_time
from tonnage.size.tools import OWN, TOOLS, Tool, tool_of

MIB, GIB = 2.0**20, 2.0**30
bases = st.sampled_from([1000, 1024])


def two_digits(number: float) -> bool:
    return len(str(int(number)).rstrip("0")) <= 2


@given(st.integers(1, 2**53) | st.floats(1, 2.0**60), bases)
def test_an_amount_is_rounded_up_to_one_that_people_write(amount: float, base: int) -> None:
    rounded = rounded_bytes(amount, base)
    assert rounded >= round(amount)
    assert rounded == rounded_bytes(rounded, base)
    megabytes, gigabytes = rounded / base**2, rounded / base**3
    assert megabytes == int(megabytes)
    assert two_digits(megabytes) or (gigabytes == int(gigabytes) and two_digits(gigabytes))
    if amount >= 10 * base**2:
        assert rounded <= 1.12 * amount


@given(st.floats(1, 2.0**50), st.floats(1, 2.0**50), bases)
def test_more_is_never_rounded_to_less(one: float, other: float, base: int) -> None:
    less, more = sorted([one, other])
    assert rounded_bytes(less, base) <= rounded_bytes(more, base)


@given(st.floats(2.0**20, 2.0**50), bases)
def test_an_amount_is_rounded_down_to_the_same_amounts(amount: float, base: int) -> None:
    rounded = rounded_down(amount, base)
    assert rounded <= round(amount)
    assert rounded == rounded_bytes(rounded, base)
    assert rounded_bytes(rounded + 1, base) >= round(amount)


@pytest.mark.parametrize(
    ("needed", "given"),
    [(4654, 4700), (4050, 4096), (10.8 * 1024, 11 * 1024), (101 * 1024, 110 * 1024), (9801, 9900), (9901, 10240)],
)
def test_the_amounts_of_the_examples(needed: float, given: float) -> None:
    assert rounded_bytes(needed * MIB, 1024) == given * MIB


@given(
    st.sampled_from([OWN, *TOOLS.values()]),
    st.sampled_from([Resource.MEMORY, Resource.DISK, Resource.WALL_TIME, Resource.CORES]),
    st.floats(1, 2.0**50),
    st.floats(2.0**20, 2.0**50) | st.just(math.inf),
)
def test_no_amount_is_more_than_the_machine(tool: Tool, resource: Resource, amount: float, machine: float) -> None:
    found = tool.rounded(resource, amount, machine)
    assert 0 < found <= machine
    assert found >= round(min(amount, machine - tool.megabyte))
    assert found == tool.rounded(resource, found, machine)


def test_times_are_those_of_a_person() -> None:
    assert OWN.rounded(Resource.WALL_TIME, 2640.0) == rounded_time(2640.0) == 2700.0


def test_every_exporter_has_its_tool() -> None:
    assert set(TOOLS) == set(EXPORTERS)


@pytest.mark.parametrize(
    ("formats", "name"),
    [
        (["nextflow"], "nextflow"),
        (["sacct", "sacct-json"], "sbatch"),
        (["htcondor", "htcondor-log"], "dagman"),
        (["snakemake"], "snakemake"),
        (["snakemake", "other"], "snakemake"),  # files of a folder that are no logs
        (["nextflow", "sacct"], ""),
        (["csv"], ""),
        (["nextflow", "csv"], ""),
        ([], ""),
    ],
)
def test_logs_that_come_from_one_tool_go_back_to_it(formats: list[str], name: str) -> None:
    assert tool_of(formats) == (TOOLS[name] if name else OWN)


@pytest.mark.parametrize(
    ("tool", "amount", "shown"),
    [
        ("nextflow", 36 * GIB, "36 GB"),
        ("nextflow", 19.8 * GIB, "19.8 GB"),
        ("nextflow", 4700 * MIB, "4700 MB"),
        ("nextflow", 256 * MIB, "256 MB"),
        ("nextflow", 14.2 * MIB, "14.2 MB"),
        ("nextflow", 1100 * GIB, "1100 GB"),
        ("nextflow", 8960, "8.75 kB"),
        ("nextflow", 0, "0 B"),
        ("snakemake", 170e6, "170 MB"),
        ("snakemake", 4.7e9, "4.7 GB"),
    ],
)
def test_amounts_are_shown_in_the_units_of_the_tool(tool: str, amount: float, shown: str) -> None:
    assert TOOLS[tool].format_amount(Resource.MEMORY, amount) == shown


def test_other_resources_are_shown_as_everywhere() -> None:
    assert TOOLS["nextflow"].format_amount(Resource.WALL_TIME, 5400.0) == "1h30m"
    assert TOOLS["nextflow"].format_amount(Resource.CORES, 4.0) == "4"
