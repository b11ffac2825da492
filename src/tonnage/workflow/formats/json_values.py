"""JSON as plain values, with errors that name the line."""

import json
import re
from typing import Any

from tonnage.files import Document

__all__ = ["HALF_CHARACTER", "load"]

# Two such escapes after each other are one character; one alone is none, and cannot be written again.
HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""Where JSON writes one half of a character, by an escape."""


def load(document: Document) -> Any:  # noqa: ANN401 (whatever the file holds)
    """Return the values of a JSON file."""
    try:
        values = json.loads(document.text)
    except json.JSONDecodeError as error:
        raise document.error(f"is not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise document.error("is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise document.error(f"is not JSON: {error}") from None
    if HALF_CHARACTER.search(document.text):
        _refuse_half_characters(values, document)
    return values


def _refuse_half_characters(values: object, document: Document) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        line = document.text.count("\n", 0, HALF_CHARACTER.search(document.text).start()) + 1  # type: ignore[union-attr]
        half = repr(error.object[error.start])[1:-1]
        raise document.error(f"holds half a character ({half})", line) from None
