"""What all figures share: texts, units, colours."""

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
"""A title, and the data and the layout that plotly knows."""
FloatArray: TypeAlias = NDArray[np.float64]

_ROOM = 60
_ROOM_IN_LEGEND = 36
_LONG = 8
"""What names begin with may stay, if it is shorter than this."""
_SERIES = 7  # colours that everybody can tell apart
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_SECONDS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_DIGITS = 6
"""What a picture can show of a number."""


def plain(text: str, room: int = _ROOM) -> str:
    """Return a text for a figure: plotly reads some tags and entities, and here nothing is one."""
    clean = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    if len(clean) > room:
        clean = f"{clean[: room // 2]}…{clean[-(room - room // 2 - 1) :]}"
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escaped_json(value: object) -> str:
    """Return JSON that can stand in an HTML page: nothing in it ends a script or begins a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def listed(values: Iterable[float]) -> list[float | None]:
    """Return numbers for a figure: those that are not known are None, and none has more digits than can be seen."""
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
    """Return a unit for amounts of a resource up to the largest."""
    if resource.unit == "bytes":
        return next((Scale(*one) for one in _BYTES if largest >= one[0]), Scale(1.0, "B"))
    if resource.unit == "seconds":
        return next((Scale(*one) for one in _SECONDS if largest >= 2 * one[0]), Scale(1.0, "seconds"))
    return Scale(1.0, "")


@dataclass(frozen=True, slots=True)
class Palette:
    """A colour for each of some names: the first few have one of their own, the others share grey."""

    names: tuple[str, ...]
    beginning: str = ""
    """What all names begin with, which therefore says nothing: ``NFCORE_RNASEQ:RNASEQ:``."""

    @classmethod
    def of(cls, names: Sequence[str]) -> "Palette":
        """Return colours for names, the most important first."""
        common = commonprefix(list(names)) if len(names) > 1 else ""  # noqa: RUF071 (letters are what is wanted)
        end = max(common.rfind(mark) for mark in ":/.") + 1
        return cls(tuple(names[:_SERIES]), common[:end] if end >= _LONG else "")

    def short(self, name: str) -> str:
        """Return a name without what all begin with."""
        return name.removeprefix(self.beginning) or "(none)"

    def legend(self, name: str | None) -> str:
        """Return a name for the legend of a figure; None is all that have no colour of their own."""
        return "others" if name is None else plain(self.short(name), _ROOM_IN_LEGEND)

    def colour(self, name: str) -> str:
        """Return the colour of a name."""
        return f"--series-{self.names.index(name) + 1}" if name in self.names else "--series-other"

    def swatch(self, name: str) -> str:
        """Return the class of a small square in that colour."""
        return f"swatch s{self.names.index(name) + 1}" if name in self.names else "swatch"
