"""Which jobs are meant, as an address says it: the filters of ``/search`` and ``/api/attempts``."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tonnage.archive import Search
from tonnage.archive.filters import search_of
from tonnage.jobs import Outcome, Resource

__all__ = ["Filters"]

_LONGEST = 4096
_MOST = 20  # conditions, and fields: all of them together fit into an address
_Short = Annotated[str, Field(max_length=1000)]


def _text(about: str) -> str | None:
    found: str | None = Field(default=None, max_length=_LONGEST, description=about)
    return found


class Filters(BaseModel):
    """Filters that a job must all meet; names may be patterns with * and ?, an empty one means that it is not known."""

    model_config = ConfigDict(extra="forbid")

    workflow: str | None = _text("Of this workflow: its name or checksum.")
    run: str | None = _text("Of this run.")
    user: str | None = _text("Of this user.")
    category: str | None = _text("Of this category.")
    label: str | None = _text("With this label, which discover gave it.")
    task: str | None = _text("Of the task with this name.")
    command: str | None = _text("With this in the command, or matching a pattern such as */bwa mem*.")
    executable: str | None = _text("Of this program.")
    input: str | None = _text("That read this file.")
    output: str | None = _text("That wrote this file.")
    file: str | None = _text("That read or wrote this file.")
    source: str | None = _text("Of the source with this label.")
    exit_status: int | None = Field(
        default=None, ge=-(2**62), le=2**62, description="That ended with this exit status."
    )
    outcome: Outcome | None = Field(default=None, description="That ended this way.")
    exhausted: Resource | None = Field(default=None, description="That ran out of this.")
    since: str | None = _text("That ended since a date such as 2026-11-15, or within 30d.")
    until: str | None = _text("That ended before.")
    where: list[_Short] = Field(default=[], max_length=_MOST, description="Such as memory>4GB or requested_cores>=8.")
    field: list[_Short] = Field(default=[], max_length=_MOST, description="With this custom field: project=atlas.")

    def search(self) -> Search:
        """Return the search; raises InputError."""
        return search_of(**{name: getattr(self, name) for name in Filters.model_fields})
