"""Attempts of every kind, as hypothesis makes them: known, unknown, done, failed, retried."""

from hypothesis import strategies as st

from tonnage.jobs import Amounts, Attempt, Outcome, Resource

__all__ = ["attempts"]

_CATEGORIES = ("align", "merge", "", 'a <b> "c"')
_AMOUNTS = st.one_of(st.none(), st.integers(1, 10**6).map(float))


@st.composite
def _attempts(draw: st.DrawFn) -> Attempt:
    started = draw(st.one_of(st.none(), st.integers(0, 1000).map(float)))
    took = draw(st.integers(0, 300))
    outcome = draw(st.one_of(st.none(), st.sampled_from(Outcome)))
    measured = draw(st.sampled_from((None, took, took + 0.5)))
    out = draw(st.sampled_from((Resource.MEMORY, Resource.DISK))) if outcome is Outcome.EXHAUSTED else None
    return Attempt(
        task=draw(st.one_of(st.none(), st.sampled_from("abcdef"))),
        number=draw(st.integers(1, 3)),
        category=draw(st.sampled_from(_CATEGORIES)),
        started=started,
        ended=None if started is None else started + took,
        outcome=outcome,
        exhausted=out,
        allocated=Amounts.of(memory=draw(_AMOUNTS), cores=draw(_AMOUNTS)),
        requested=Amounts.of(memory=draw(_AMOUNTS), disk=draw(_AMOUNTS)),
        used=Amounts.of(
            memory=draw(_AMOUNTS),
            cores=draw(_AMOUNTS),
            disk=draw(_AMOUNTS),
            wall_time=measured,
        ),
    )


def attempts(most: int = 30) -> st.SearchStrategy[list[Attempt]]:
    """Return some attempts."""
    return st.lists(_attempts(), min_size=1, max_size=most)
