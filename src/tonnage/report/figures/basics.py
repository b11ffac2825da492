"""Texts, units and colours, which all figures share."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from os.path import commonprefix
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.jobs import Resource

__all__ = ["Figure", "FloatArray", "Palette", "Scale", "escaped_json", "listed", "plain", "scale"]

Figure: TypeAlias = dict[str, Any]
"""A title, and plotly's data and layout."""
FloatArray: TypeAlias = NDArray[np.float64]

_ROOM = 60
_ROOM_IN_LEGEND = 36
_LONG = 8
"""A common prefix of names is kept if it is shorter than this."""
_SERIES = 7  # colours that are easy to tell apart, also for the colour-blind
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_SECONDS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_DIGITS = 6
"""Significant digits that are visible in a picture."""


def plain(text: str, room: int = _ROOM) -> str:
    """Return a text for a figure, escaped because plotly interprets some tags and entities."""
    clean = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    if len(clean) > room:
        clean = f"{clean[: room // 2]}…{clean[-(room - room // 2 - 1) :]}"
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escaped_json(value: object) -> str:
    """Return JSON that is safe in an HTML page: nothing in it ends a script or starts a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def listed(values: Iterable[float]) -> list[float | None]:
    """Return numbers for a figure: None if unknown, and without digits that would not be visible."""
    return [float(f"{value:.{_DIGITS}g}") if isfinite(value) else None for value in values]


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit in which amounts are drawn."""

    factor: float
    unit: str

    def axis(self, what: str) -> str:
        """Return the title of an axis."""
        return f"{what} ({self.unit})" if self.unit else what


def scale(resource: Resource, largest: float) -> Scale:
    """Return the unit for amounts of a resource, given the largest."""
    if resource.unit == "bytes":
        return next((Scale(*one) for one in _BYTES if largest >= one[0]), Scale(1.0, "B"))
    if resource.unit == "seconds":
        return next((Scale(*one) for one in _SECONDS if largest >= 2 * one[0]), Scale(1.0, "seconds"))
    return Scale(1.0, "")


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours for names: the first few have their own, the others share grey."""

    names: tuple[str, ...]
    beginning: str = ""
    """The common prefix of all names, which says nothing: ``NFCORE_RNASEQ:RNASEQ:``."""

    @classmethod
    def of(cls, names: Sequence[str]) -> "Palette":
        """Assign colours to names, which are given in order of importance."""
        common = commonprefix(list(names)) if len(names) > 1 else ""  # noqa: RUF071 (letters are what is wanted)
        end = max(common.rfind(mark) for mark in ":/.") + 1
        return cls(tuple(names[:_SERIES]), common[:end] if end >= _LONG else "")

    def short(self, name: str) -> str:
        """Return a name without the common prefix."""
        return name.removeprefix(self.beginning) or "(none)"

    def legend(self, name: str | None) -> str:
        """Return a name for the legend of a figure; None stands for all names without their own colour."""
        return "others" if name is None else plain(self.short(name), _ROOM_IN_LEGEND)

    def colour(self, name: str) -> str:
        """Return the colour of a name."""
        return f"--series-{self.names.index(name) + 1}" if name in self.names else "--series-other"

    def swatch(self, name: str) -> str:
        """Return the CSS class of a small square in that colour."""
        return f"swatch s{self.names.index(name) + 1}" if name in self.names else "swatch"
