"""Pages: templates filled with values, all of which are escaped."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tonnage import __version__
from tonnage.jobs import Resource
from tonnage.report.text import hours, ladder_text, name_of, percent, said

__all__ = ["address", "render"]


def _script_json(value: object) -> Markup:
    """Return JSON that is safe inside a script element: nothing in it ends the element."""
    text = json.dumps(value, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


@cache
def _environment() -> Environment:
    """Return the template environment, with all filters."""
    environment = Environment(
        loader=PackageLoader("tonnage.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"script_json": _script_json, "count": _count, "amount": _amount, "moment": _moment}
    environment.filters |= {"hours": hours, "percent": percent, "said": said, "name_of": name_of, "ladder": ladder_text}
    environment.filters["sentence"] = _sentence
    environment.globals["version"] = __version__
    return environment


def address(path: str, query: Mapping[str, object], **changes: object) -> str:
    """Return a URL with a query and some changes to it; parameters that are None or False are left out."""
    kept = {key: value for key, value in {**query, **changes}.items() if value is not None and value is not False}
    pairs = {key: "true" if value is True else value for key, value in kept.items()}
    return f"{path}?{urlencode(pairs, doseq=True)}" if pairs else path


def _count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def _amount(value: float | None, resource: str) -> str:
    return "–" if value is None else Resource(resource).format_amount(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _moment(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def render(template: str, **values: Any) -> str:  # noqa: ANN401 (templates take values of any type)
    """Return a page made from a template."""
    return _environment().get_template(template).render(values)
