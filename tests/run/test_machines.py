"""Machines: what is left of them while tasks run."""

from hypothesis import given
from hypothesis import strategies as st

from tonnage.run.machines import Machine, Need, Room

# Needs are whole bytes and cores, as the engine gives them: sums of fractions would go astray.
NEEDS = st.lists(
    st.tuples(*(st.integers(least, most).map(float) for least, most in ((1, 3), (1, 3 * 10**8), (0, 10**9)))),
    min_size=1,
    max_size=30,
)


@given(NEEDS)
def test_a_machine_on_which_nothing_runs_has_all_that_it_had(needs: list[Need]) -> None:
    machine = Machine(100, 1e10, 1e11)
    room = Room([machine])
    for need in needs:
        room.take(0, need)
    for need in needs:
        room.give_back(0, need)
    assert room.find((machine.cores, machine.memory, machine.disk)) == 0
