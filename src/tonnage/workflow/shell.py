"""Shell commands as text: which program they start, and how to write several lines as one."""

import re
from posixpath import basename, isabs

__all__ = ["executable", "one_line", "own_program", "plain_words", "several_lines", "without_number"]

_ASSIGNMENT = re.compile(r"""\s*[A-Za-z_]\w*=(?:'[^']*'|"[^"]*"|[^\s'"])*(?:\s+|$)""", re.ASCII)
_NUMBER_SUFFIX = re.compile(r"(?:[_.-]?ID)?[_.-]?\d+$")

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./^-][A-Za-z0-9_@%+:,./^= -]*", re.ASCII)
# Shell keywords and builtins, including those that differ from the program of the same name.
_OF_THE_SHELL = re.compile(
    r"[.:]|alias|bg|break|case|cd|command|continue|echo|eval|exec|exit|export|fc|fg|for|function|getopts|hash|if|jobs|let"
    r"|local|printf|pwd|read|readonly|return|select|set|shift|source|test|time|times|trap|type|ulimit|umask|unalias|unset"
    r"|until|wait|while"
)

_PACKED = re.compile(r"""eval "\$\(printf %b '([^']*)'\)"$""")


def executable(command: str | None) -> str | None:
    """Return the name of the program that a command starts: ``bwa`` for ``LC_ALL=C ./bin/bwa mem a.fq``."""
    rest = command or ""
    while found := _ASSIGNMENT.match(rest):
        rest = rest[found.end() :]
    word = next(iter(rest.split(None, 1)), "")
    return basename(word.strip("'\"();&|")) or None


def own_program(command: str | None) -> str | None:
    """Return the program of a command if its path is relative to the workflow: ``./align.sh``."""
    word = next(iter((command or "").split(None, 1)), "")
    return word if "/" in word and not isabs(word) else None


def plain_words(command: str) -> list[str] | None:
    """Return the words of a command that needs no shell, because starting one can take longer than the command."""
    if not _PLAIN.fullmatch(command):
        return None
    words = command.split()
    return None if "=" in words[0] or _OF_THE_SHELL.fullmatch(words[0]) else words


def without_number(name: str) -> str:
    """Return a task's name without its number: ``align`` for ``align_ID0000012`` or ``align-7``."""
    return _NUMBER_SUFFIX.sub("", name) or name


def one_line(command: str) -> str:
    """Return an equivalent command on a single line, for formats in which a line break ends the command."""
    if "\n" not in command and "\r" not in command and not _PACKED.match(command):
        return command
    packed = "".join(_packed(character) for character in command)
    return f"""eval "$(printf %b '{packed}')\""""


def several_lines(command: str) -> str:
    """Return the original of a command that `one_line` converted."""
    found = _PACKED.match(command)
    if not found:
        return command
    return re.sub(r"\\(0[0-7]{1,3}|\\)", lambda part: _unpacked(part.group(1)), found.group(1))


def _packed(character: str) -> str:
    if character == "\\":
        return r"\\"
    # printf %b reads a backslash, a zero and up to three octal digits as one byte; a quote would end the argument.
    return f"\\0{ord(character):03o}" if character in "\n\r'" else character


def _unpacked(escape: str) -> str:
    return escape if escape == "\\" else chr(int(escape, 8))
