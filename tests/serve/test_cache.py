"""Answers that are kept: found once for all who ask, and anew when that is due."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import pytest

from tests.deadlines import HANGS
from tonnage.serve import cache
from tonnage.serve.cache import Cache


def test_many_who_ask_at_the_same_time_get_one_answer_that_was_found_once() -> None:
    numbers, found, go = count(1), Cache(), Event()

    def find() -> int:
        go.wait(HANGS)
        return next(numbers)

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(found.get, "run", None, find) for _ in range(8)]
        go.set()
        assert {one.result(HANGS) for one in answers} == {1}


def test_what_has_not_changed_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_AT_LEAST", 0.0)
    monkeypatch.setattr(cache, "_SHARE", 0.0)
    numbers, found = count(1), Cache()
    assert [found.get("run", "as it was", lambda: next(numbers)) for _ in range(3)] == [1, 1, 1]
    assert found.get("run", "changed", lambda: next(numbers)) == 2
    assert [found.get("run", None, lambda: next(numbers)) for _ in range(2)] == [3, 4]  # nobody knows


def test_an_error_is_not_kept() -> None:
    found = Cache()
    with pytest.raises(ZeroDivisionError):
        found.get("run", None, lambda: 1 // 0)
    assert found.get("run", None, lambda: 1) == 1


def test_only_the_last_few_are_kept() -> None:
    found = Cache()
    for number in range(1000):
        assert found.get(str(number), "the same", lambda number=number: number) == number  # type: ignore[misc]
    assert len(found._answers) <= 100
