"""Shell commands as text: which program they start, and how to write several lines as one."""

import re
from collections.abc import Iterator
from posixpath import basename, isabs

from tonnage.workflow.launchers import INTERPRETERS, LAUNCHERS, OPAQUE, SHELLS, Launcher

__all__ = ["executable", "one_line", "own_program", "plain_words", "programs", "several_lines", "without_number"]

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_FIRST_WORD = re.compile(r"\s*([\w./+-]+)(?=\s|$)", re.ASCII)
_TOKEN = re.compile(
    r"""[ \t\r]*(?:(?P<operator>[();<>|&\n]+)"""
    r"""|(?P<word>(?:\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\();<>|&`])+))""",
    re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
_ESCAPED = re.compile(r"""\\([$`"\\\n])""")
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_PROGRAM = re.compile(r"[\w.+@%:,=-]+")
_NUMBER_SUFFIX = re.compile(r"(?:[_.-]?ID)?[_.-]?\d+$")

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./^-][A-Za-z0-9_@%+:,./^= -]*", re.ASCII)
# Shell keywords and builtins, including those that differ from the program of the same name.
_OF_THE_SHELL = re.compile(
    r"[.:]|alias|bg|break|case|cd|command|continue|echo|eval|exec|exit|export|fc|fg|for|function|getopts|hash|if|jobs|let"
    r"|local|printf|pwd|read|readonly|return|select|set|shift|source|test|time|times|trap|type|ulimit|umask|unalias|unset"
    r"|until|wait|while"
)

_KEYWORDS = frozenset(("if", "for", "while", "until", "case", "select", "function", "coproc", "[[", "(("))
"""What follows them may run any number of programs, in any order."""
_BEFORE_A_PROGRAM = frozenset(("{", "!", "if", "then", "elif", "else", "while", "until", "do"))
_PREPARES = frozenset(
    (
        ".",
        ":",
        "alias",
        "cd",
        "declare",
        "exit",
        "export",
        "local",
        "ml",
        "module",
        "popd",
        "pushd",
        "readonly",
        "set",
        "shopt",
        "source",
        "trap",
        "ulimit",
        "umask",
        "unset",
        "wait",
    )
)
"""What prepares the shell for the program, and is none itself."""
_ASIDE = frozenset(("mkdir", "rm", "echo", "printf", "date", "hostname", "test", "[", "true"))
"""Programs that a command is about only if it runs no other."""
_ACTIVATES = frozenset([("conda", "activate"), ("mamba", "activate"), ("micromamba", "activate"), ("spack", "load")])
_KNOWN = frozenset({*SHELLS, *LAUNCHERS, *INTERPRETERS, *OPAQUE})
_DEEPEST = 8  # commands inside of commands

_PACKED = re.compile(r"""eval "\$\(printf %b '([^']*)'\)"$""")


def executable(command: str | None) -> str | None:
    """Return the name of the program that a command is about: ``bwa`` for ``cd x && srun -n 2 ./bin/bwa mem a.fq``.

    It looks through whatever prepares the shell or starts other programs, and takes a script instead of its
    interpreter. None if it cannot tell: the name of a launcher would put unrelated programs together.
    """
    command = several_lines(command or "")
    first = _FIRST_WORD.match(command)
    if first and _is_plain(basename(first.group(1))):
        return basename(first.group(1)) or None
    return _program_of(command, _DEEPEST)


def _is_plain(name: str) -> bool:
    """Whether a program's name can stand as it is: it is neither part of the shell nor starts another program."""
    special = name in _PREPARES or name in _KEYWORDS or name in _ASIDE or name in ("eval", "{", "!", "-")
    return not special and not any(name == verb for verb, _ in _ACTIVATES) and _without_version(name) not in _KNOWN


def _without_version(name: str) -> str:
    """Return a program's name without its version: ``python`` for ``python3.11``."""
    return name.rstrip("0123456789.") or name


def _program_of(text: str, depth: int) -> str | None:
    """Return the program of a script, which is its first simple command that is no mere preparation."""
    aside = None
    for words in _simple_commands(text):
        while words and (words[0] in ("{", "!") or _ASSIGNMENT.match(words[0])):
            del words[0]
        if not words or _only_prepares(words):
            continue
        if words[0] not in _ASIDE:
            return _seen_through(words, depth)
        aside = aside or words[0]
    return aside


def programs(command: str | None) -> set[str]:
    """Return the names of all programs and scripts that a command runs, as far as it can be told."""
    found = set()
    for words in _simple_commands(several_lines(command or "")):
        while words and (words[0] in _BEFORE_A_PROGRAM or _ASSIGNMENT.match(words[0])):
            del words[0]
        if words:
            name = basename(words[1]) if words[0] in (".", "source") and words[1:] else _seen_through(words, _DEEPEST)
            found.add(name or "")
    return found - {""}


def _only_prepares(words: list[str]) -> bool:
    if words[0] == "eval":
        return words[1:2] != [] and words[1].startswith("$(")  # eval "$(conda shell.bash hook)"
    return words[0] in _PREPARES or tuple(words[:2]) in _ACTIVATES


def _seen_through(words: list[str], depth: int) -> str | None:
    """Return the program that a simple command starts; None if it cannot be told."""
    name = basename(words[0])
    stem = _without_version(name)
    if not depth or name in _KEYWORDS or name in OPAQUE or name == "eval":
        return None
    if name in SHELLS:
        return _of_shell(words[1:], depth)
    launcher = LAUNCHERS.get(name) or INTERPRETERS.get(stem)
    if launcher is None:
        return name if _PROGRAM.fullmatch(name) and not name.startswith("-") else None
    rest = _after_options(words[1:], launcher)
    if rest is None or stem not in INTERPRETERS:
        return _seen_through(rest, depth - 1) if rest else None
    script = basename(rest[0].rstrip("/")) if rest else ""
    return script if _PROGRAM.fullmatch(script) and script != "-" else None


def _of_shell(words: list[str], depth: int) -> str | None:
    """Return the program of ``sh -c TEXT`` or ``sh SCRIPT``, given the words after the shell's name."""
    for place, word in enumerate(words):
        if word in ("pipefail", "errexit", "nounset") and words[place - 1].endswith("o"):
            continue
        if not word.startswith(("-", "+")) or word in ("-", "--"):
            script = basename(word)
            return script if _PROGRAM.fullmatch(script) and script != "-" else None
        if "c" in word and not word.startswith("--"):
            return next((_program_of(text, depth - 1) for text in words[place + 1 :] if not text.startswith("-")), None)
    return None


def _after_options(words: list[str], launcher: Launcher) -> list[str] | None:
    """Return what follows a launcher's options and operands; None if there is an option that it may not know."""
    place = 0
    verbs = launcher.verbs
    operands = launcher.operands
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if launcher.assigns and _ASSIGNMENT.match(word):
            place += 1
        elif word.startswith("-") and word != "-":
            if word in launcher.names or word.split("=", 1)[0] in launcher.names:
                return [word.split("=", 1)[1]] if "=" in word else words[place + 1 : place + 2]
            length = launcher.length(word)
            if length is None:
                return None
            place += length
        elif verbs:
            if word not in verbs:
                return None
            verbs = frozenset()
            place += 1
        else:
            break
    return None if verbs else words[place + operands :]


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a script, without redirections."""
    words: list[str] = []
    place, redirected = 0, False
    text = _COMMENT.sub("", text.replace("\\\n", " "))
    while found := _TOKEN.match(text, place):
        place = found.end()
        operator = found.group("operator")
        if operator is None:
            if not redirected:
                words.append(_unquoted(found.group("word")))
            redirected = False
        elif "<" in operator or ">" in operator:
            redirected = True
        else:
            yield words
            words, redirected = [], False
    if not text[place:].strip():  # else a quotation does not end
        yield words


def _unquoted(word: str) -> str:
    return _QUOTED.sub(_inside, word)


def _inside(quoted: re.Match[str]) -> str:
    single, double, escaped = quoted.groups()
    return _ESCAPED.sub(r"\1", double) if double is not None else single or escaped or ""


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
