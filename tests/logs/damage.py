"""What a reader says about a text, and damaged texts to say it about."""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from types import ModuleType

from tonnage.errors import InputError
from tonnage.jobs import Attempt
from tonnage.logs.log import Assumed, Entry, Hints, Log, Skipped

__all__ = ["Said", "damaged", "said", "said_of", "survives"]

ROUNDS = int(os.environ.get("TONNAGE_SOAK", "1")) * 200
# What means something somewhere: it gets further than random letters.
TOKENS = [
    *'{}[]()<>"\'\\:,;=+-*/%$#@&|!~ \t\n\r',
    "-1", "1e999", "-1e5", "99999999999999999999", "9" * 5000, "NaN", "inf", "0", "0x10", "1_000", "²", "null", "true",
    "NA", "-", " -- ", "\t\t", "\r\n", "\\ud800", "\\u0000", "'\\ud800'", "é", "\0", "\x85", "\u2028", "\ufeff",
    "x" * 300, "{}", "[]", "{'a': ", "[" * 2000, "-" * 5000, "[1, \"MB\"]", "12:00:00", "1 day, 0:00:00", "2026-02-30",
    "; UnixStartTime: x", "<adag>", '"wall_time"', "COMPLETED", "137",
]  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What a reader yielded, by kind."""

    attempts: list[Attempt]
    skipped: list[Skipped]
    assumed: list[str]

    @property
    def only(self) -> Attempt:
        """The attempt, where there is one and nothing was skipped."""
        (attempt,) = self.attempts
        assert self.skipped == []
        return attempt


def said(reader: ModuleType, text: str, path: str = "log", hints: Hints | None = None) -> Said:
    return said_of(reader, Log.of(text, path), hints)


def said_of(reader: ModuleType, log: Log, hints: Hints | None = None) -> Said:
    entries: list[Entry] = list(reader.read(log, hints or Hints()))
    return Said(
        [entry for entry in entries if isinstance(entry, Attempt)],
        [entry for entry in entries if isinstance(entry, Skipped)],
        [entry.what for entry in entries if isinstance(entry, Assumed)],
    )


def damaged(text: str) -> Iterator[str]:
    """Yield a text with a few parts replaced, removed, doubled or moved, again and again."""
    dice = random.Random(text)
    for _ in range(ROUNDS):
        letters = text
        for _ in range(dice.randint(1, 4)):
            begin = dice.randrange(len(letters) + 1)
            end = min(len(letters), begin + dice.choice([0, 1, 1, 3, 20]))
            part = dice.choice(["", letters[begin:end] * 2, *dice.sample(TOKENS, 3)])
            letters = letters[:begin] + part + letters[end:]
        yield letters


def survives(reader: ModuleType, text: str, path: str = "log") -> Iterator[tuple[str, Said]]:
    """Yield damaged texts with what the reader says about them; whatever it says can be stored."""
    for letters in damaged(text):
        assert reader.recognises(letters) in (True, False)
        try:
            found = said(reader, letters, path)
        except InputError as error:
            assert path in error.report()
            continue
        for attempt in found.attempts:
            _check_storable(attempt)
        assert all(entry.reason for entry in found.skipped)
        yield letters, found


def _check_storable(attempt: Attempt) -> None:
    texts = [attempt.row, attempt.native_id, attempt.task, attempt.category, attempt.command, attempt.user]
    for text in [*texts, *attempt.inputs, *attempt.outputs, *attempt.fields.values()]:
        assert text is None or isinstance(text.encode(), bytes)
    json.dumps(dict(attempt.raw), ensure_ascii=False).encode()
    assert attempt.row
    for amounts in (attempt.requested, attempt.allocated, attempt.used):
        for _, amount in amounts.known():
            assert 0 <= amount < (2**63 if isinstance(amount, int) else inf)
    assert attempt.input_bytes is None or 0 <= attempt.input_bytes < 2**63
