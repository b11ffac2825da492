"""Pages: templates filled with values, every one of them escaped."""

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tonnage import __version__
from tonnage.jobs import Resource

__all__ = ["page_environment", "render", "script_json"]


def script_json(value: object) -> Markup:
    """Return JSON that can stand inside of a script element: nothing in it ends the element."""
    text = json.dumps(value, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


@cache
def page_environment() -> Environment:
    """Return what fills templates; whoever adds a room's filters does it here."""
    environment = Environment(
        loader=PackageLoader("tonnage.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"script_json": script_json, "count": _count, "amount": _amount, "moment": _moment}
    environment.globals["version"] = __version__
    return environment


def _count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def _amount(value: float | None, resource: str) -> str:
    return "–" if value is None else Resource(resource).shown(value)


def _moment(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def render(template: str, **values: Any) -> str:  # noqa: ANN401 (templates take values of any type)
    """Return a page."""
    return page_environment().get_template(template).render(values)
