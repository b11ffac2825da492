"""The plainest workflow: a text file with one shell command per line, a bag of tasks without dependencies.

``# category: align`` sets the category of the commands that follow; other lines that start with # are comments. Each
line runs in a shell of its own, in any order, so scripts and lines that need their neighbours are refused.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator

from tonnage.files import Document
from tonnage.workflow.formats.shell_lines import why_not_alone
from tonnage.workflow.model import Source, Task, Workflow
from tonnage.workflow.shell import executable

__all__ = ["named_after", "read", "recognises"]

_CATEGORY = re.compile(r"#\s*category\s*:(.*)", re.IGNORECASE)
_SHOWN = 60  # characters of a command in a message


def recognises(text: str) -> bool:
    """Whether a line states a category; without one, only the user can say that a file is a list of commands."""
    return any(_CATEGORY.match(line.strip()) for line in text[:100_000].split("\n"))


def read(document: Document) -> Workflow:
    """Read one task per line; a backslash at the end continues a line, as in a shell."""
    _refuse_script(document)
    tasks: list[Task] = []
    same: Counter[str] = Counter()
    category: str | None = None
    for number, command in _logical_lines(document):
        directive = _CATEGORY.match(command)
        if directive:
            category = directive.group(1).strip()
            if not category:
                raise document.error("expected a name after # category:", number)
        elif command.startswith("#SBATCH"):
            raise document.error(
                "is a Slurm batch script, not a list of commands", number, hint="submit it with sbatch"
            )
        elif command and not command.startswith("#"):
            _check_alone(document, command, number)
            program = executable(command) or "task"
            name = named_after(program, command, same)
            tasks.append(Task(name=name, command=command, category=category or program))
    if not tasks:
        raise document.error("holds no command")
    return Workflow.build(document.stem, tasks, source=Source(document.path, "text"))


def _refuse_script(document: Document) -> None:
    if document.text.startswith("#!"):
        interpreter = document.text.partition("\n")[0][2:].strip()
        hint = "its lines belong together; to run it as one task, name it in a list of commands"
        raise document.error(f"is a script for {interpreter}, not a list of commands", 1, hint=hint)


def _check_alone(document: Document, command: str, number: int) -> None:
    why = why_not_alone(command)
    if why is None:
        return
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
    raise document.error(
        f'"{shown}" {why}, and each line of a list of commands runs in a shell of its own',
        number,
        hint='join what belongs together on one line ("cd data && ./run"), or put it into a script and list that',
    )


def _logical_lines(document: Document) -> Iterator[tuple[int, str]]:
    """Yield each command with the number of its first line."""
    first = 1
    parts: list[str] = []
    for number, line in enumerate(document.lines(), start=1):
        if not parts:
            first = number
        parts.append(line)
        # An even number of backslashes is a text that ends in one, not a continuation.
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0 or line.lstrip().startswith("#"):
            yield first, "\n".join(parts).strip()
            parts = []
    if parts:
        yield first, "\n".join(parts).strip()


def named_after(program: str, command: str, same: Counter[str]) -> str:
    """Return a name that stays when other lines come and go: the program, a hash, and k for the k-th equal command."""
    name = f"{program}-{hashlib.sha256(command.encode()).hexdigest()[:10]}"
    same[name] += 1
    return name if same[name] == 1 else f"{name}-{same[name]}"
