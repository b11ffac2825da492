"""Option values with parts, ``cores=16,memory=64GiB`` or ``5%``: apart because cli, serve and archive parse them."""

from collections.abc import Sequence

from tonnage.errors import InputError
from tonnage.jobs import Resource

__all__ = ["amounts", "pairs", "part", "parts"]


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """Return what ``NAME=VALUE`` says, given once or more often."""
    found: dict[str, str] = {}
    for part in values:
        name, equals, value = part.partition("=")
        if not name.strip() or not equals:
            raise InputError(f'{option}: "{part}" is not of the form NAME=VALUE')
        found[name.strip()] = value.strip()
    return found


def parts(values: Sequence[str]) -> list[str]:
    """Return what stands between commas, given once or more often."""
    return [part for value in values for part in value.split(",")]


def part(text: str, option: str) -> float:
    """Return the part that ``5%`` or ``0.05`` names."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise InputError(f'{option}: "{text}" is not a part', hint="write one such as 5% or 0.05")
    return value


def amounts(values: Sequence[str], option: str) -> dict[Resource, float]:
    """Return the amounts that ``cores=16,memory=64GiB`` names, given once or more often."""
    found = {}
    for name, text in pairs(parts(values), option).items():
        if name not in list(Resource):
            raise InputError(f'{option}: "{name}" is not a resource', hint=f"one of {', '.join(Resource)}")
        found[Resource(name)] = Resource(name).parse(text)
        if not found[Resource(name)]:
            raise InputError(f"{option}: {name} cannot be 0")
    return found
