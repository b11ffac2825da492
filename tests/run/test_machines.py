"""Machines: what is left of them while tasks run."""

from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.run.machines import Machine, Need, Room

NEEDS = st.lists(st.tuples(st.floats(0.01, 3), st.floats(1, 3e8), st.floats(0, 1e9)), min_size=1, max_size=30)
# 1e9 less these, and then plus these, is a little less than 1e9.
ASTRAY: list[Need] = [(1.0, memory, 0.0) for memory in (78416108.338, 153871141.689, 122075307.098)]


@given(NEEDS)
@example(ASTRAY)
def test_a_machine_on_which_nothing_runs_has_all_that_it_had(needs: list[Need]) -> None:
    machine = Machine(100, 1e9 if needs == ASTRAY else 1e10, 1e11)
    room = Room([machine])
    for need in needs:
        room.take(0, need)
    for need in needs:
        room.give_back(0, need)
    assert room.find((machine.cores, machine.memory, machine.disk)) == 0
