"""Parsing of option values such as ``cores=16,memory=64GiB`` or ``5%``, for cli, serve and archive."""

from collections.abc import Mapping, Sequence

from tonnage.errors import InputError
from tonnage.jobs import Amounts, Resource
from tonnage.wording import meant

__all__ = ["amounts", "amounts_given", "pairs", "part", "parts"]


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """Parse ``NAME=VALUE`` options, given once or several times, into a dictionary."""
    found: dict[str, str] = {}
    for part in values:
        name, equals, value = part.partition("=")
        if not name.strip() or not equals:
            raise InputError(f'{option}: "{part}" is not of the form NAME=VALUE')
        found[name.strip()] = value.strip()
    return found


def parts(values: Sequence[str]) -> list[str]:
    """Split comma-separated options, given once or several times, into a flat list."""
    return [part for value in values for part in value.split(",")]


def part(text: str, option: str) -> float:
    """Parse a fraction such as ``5%`` or ``0.05``."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise InputError(f'{option}: "{text}" is not a fraction', hint="use one such as 5% or 0.05")
    return value


def amounts(values: Sequence[str], option: str) -> dict[Resource, float]:
    """Parse amounts such as ``cores=16,memory=64GiB``, given once or several times."""
    found = {}
    for given in parts(values):
        if "=" not in given:
            problem = "has no amount" if given.strip() in list(Resource) else "names no resource"
            raise InputError(f'{option}: "{given}" {problem}', hint=_example(given.strip()))
    for name, text in pairs(parts(values), option).items():
        if name not in list(Resource):
            hint = meant(name, Resource) or f"use one of {', '.join(Resource)}"
            raise InputError(f'{option}: "{name}" is not a resource', hint=hint)
        found[Resource(name)] = Resource(name).parse(text)
        if not found[Resource(name)]:
            raise InputError(f"{option}: {name} cannot be 0")
    return found


def _example(given: str) -> str:
    """Return what may have been meant by an amount without a resource."""
    if given.isdecimal():
        return f"did you mean cores={given}?"
    try:
        Resource.MEMORY.parse(given)
    except InputError:
        return "example: cores=16,memory=64GB"
    return f"did you mean memory={given}?"


def amounts_given(given: Mapping[str, str | float], known: Sequence[Resource]) -> Amounts:
    """Return the amounts that a Python program passed as numbers in base units or as texts such as ``64GB``."""
    found: dict[str, float] = {}
    for name, amount in given.items():
        if name not in known:
            raise InputError(f'"{name}" is not a resource here', hint=f"choose from {', '.join(known)}")
        found[name] = Resource(name).parse(amount) if isinstance(amount, str) else float(amount)
        if not found[name] > 0:
            raise InputError(f"{name} must be more than 0")
    return Amounts.of(**found)  # type: ignore[arg-type]
