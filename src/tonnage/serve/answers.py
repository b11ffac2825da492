"""Answers as JSON: their version at the top, and nothing in them that JSON does not have."""

import json
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

__all__ = ["Answer", "Json"]


class Answer(BaseModel):
    """What every answer begins with."""

    schema_: Literal[1] = Field(default=1, alias="schema")


class Json(JSONResponse):
    """Plain values as they are: checking a thousand attempts against their description takes longer than finding them.

    An amount that is no number, which only a damaged archive holds, is not known.
    """

    def __init__(self, facts: dict[str, Any], status: int = 200) -> None:
        super().__init__({"schema": 1, **facts}, status)

    def render(self, content: Any) -> bytes:  # noqa: ANN401 (Starlette's own signature)
        """Return the bytes of the answer."""
        try:
            return _dumped(content)
        except ValueError:
            return _dumped(json.loads(json.dumps(content), parse_constant=lambda _: None))


def _dumped(content: object) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
