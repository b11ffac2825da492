"""The simplest workflow: a text file with one shell command per line, a bag of tasks without dependencies.

``# category: align`` sets the category of the commands that follow; other lines that start with # are comments. Each
line runs in a shell of its own, in any order. A line cut out of a script (``cd scratch``, ``for x in a b; do``) would
then do something other than its author intended, so scripts and lines that depend on others are rejected.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from tonnage.files import Document
from tonnage.wording import one_line
from tonnage.workflow.model import Source, Task, Workflow
from tonnage.workflow.shell import executable

__all__ = ["named_after", "read", "recognises", "why_not_alone"]

_CATEGORY = re.compile(r"#\s*category\s*:(.*)", re.IGNORECASE)
_SUBMITTED_WITH = {"#SBATCH": "sbatch", "#PBS": "qsub", "#BSUB": "bsub"}
"""The programs that read these lines of batch scripts."""
_SHOWN = 60  # characters of a command in a message


def recognises(text: str) -> bool:
    """Whether a category is set before the first command; otherwise only the user can say that a file is a list."""
    lines = (line.strip() for line in text[:100_000].split("\n"))
    header = takewhile(lambda line: not line or line.startswith("#"), lines)
    return any(map(_CATEGORY.match, header))


def read(document: Document) -> Workflow:
    """Read one task per line; a backslash at the end continues a line, as in a shell."""
    tasks: list[Task] = []
    same: Counter[str] = Counter()
    category: str | None = None
    for number, command in _logical_lines(document):
        directive = _CATEGORY.match(command)
        if directive:
            category = directive.group(1).strip()
            if not category:
                raise document.error('expected a name after "# category:"', number)
        elif command.startswith("#"):
            _refuse_script(document, command, number)
        elif command:
            _check_alone(document, command, number)
            program = executable(command) or "task"
            name = named_after(program, command, same)
            tasks.append(Task(name=name, command=command, category=category or program, line=number))
    if not tasks:
        raise document.error("contains no commands")
    return Workflow.build(document.stem, tasks, source=Source(document.path, "text"))


def _refuse_script(document: Document, comment: str, number: int) -> None:
    if comment.startswith("#!"):
        hint = "its lines belong together; to run it as one task, name it in a list of commands"
        raise document.error(f"is a script for {comment[2:].strip()}, not a list of commands", number, hint=hint)
    submitter = _SUBMITTED_WITH.get(comment.split(maxsplit=1)[0])
    if submitter:
        raise document.error("is a batch script, not a list of commands", number, hint=f"submit it with {submitter}")


def _check_alone(document: Document, command: str, number: int) -> None:
    why = why_not_alone(command)
    if why is None:
        return
    raise document.error(
        f'"{one_line(command, _SHOWN)}" {why}, but each line of a list of commands runs in a shell of its own',
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
        # An even number of backslashes at the end means literal ones, not a continuation.
        if (len(line) - len(line.rstrip("\\"))) % 2 == 0 or line.lstrip().startswith("#"):
            yield first, "\n".join(parts).strip()
            parts = []
    if parts:
        yield first, "\n".join(parts).strip()


def named_after(program: str, command: str, same: Counter[str]) -> str:
    """Return a name that does not depend on other lines: the program, a hash, and k for the k-th equal command."""
    name = f"{program}-{hashlib.sha256(command.encode()).hexdigest()[:10]}"
    same[name] += 1
    return name if same[name] == 1 else f"{name}-{same[name]}"


_ONLY_FOR_OTHERS = frozenset(
    {".", "alias", "cd", "declare", "export", "local", "module", "popd", "pushd", "readonly", "set", "shopt", "source"}
    | {"ml", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "wait"}
)
"""Commands that only affect the shell that runs them."""
_WITHOUT_WORK = frozenset({":", "[", "[[", "exit", "false", "return", "test", "true"})
"""Commands that stand beside them without doing any work: ``cd scratch || exit 1``."""
_ACTIVATION = re.compile(r"(?:conda|mamba|micromamba)[ \t]+(?:de)?activate\b[^;&|]*")
_LABEL = re.compile(r"[^\s:]+:(?!\S)")
_OPENS = {"if": "if", "for": "loop", "select": "loop", "while": "loop", "until": "loop", "case": "case", "{": "{"}
_INSIDE = {"then": "if", "elif": "if", "else": "if", "do": "loop"}
_CLOSES = {"fi": "if", "done": "loop", "esac": "case", "}": "{"}
_UNCLOSED = {
    "if": 'an "if" without its "fi"',
    "loop": 'a loop without its "done"',
    "case": 'a "case" without its "esac"',
    "{": "an unclosed brace",
    "(": "an unclosed parenthesis",
}
_QUOTE = "has an unclosed quote"
_ONLY_AFFECTS = "only affects the shell that runs it"

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=", re.ASCII)
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)*(?:#[^\n]*)?")
_OPERATOR = re.compile(
    r"(?P<join>&&|\|\||\|&?)|(?P<branch>;;&?|;&)|(?P<here>[0-9]*<<-?(?!<))"
    r"|(?P<redirection>&>>?|[0-9]*(?:<<<|<>|[<>]&|>[>|]|[<>](?!\()))|(?P<end>[;&\n])|(?P<open>\()|(?P<close>\))"
)
_EMPTY = re.compile(r"\(\s*\)")
_WORD_PART = re.compile(r"[^\s'\"`\\$()<>|&;]+")

# Most lines of most lists contain nothing that a shell treats specially, and do not begin with a shell keyword.
_FIRST_WORD = re.compile(r"\S*")
_SPECIAL = re.compile(r"['\"`\\$(){}<|&;#=\n]")
_OF_THE_SHELL = _ONLY_FOR_OTHERS | _OPENS.keys() | _INSIDE.keys() | _CLOSES.keys() | {"!", "function", "time"}


def why_not_alone(command: str) -> str | None:
    """Return why a command cannot run by itself, as the predicate of a sentence; None if it can."""
    if _ACTIVATION.fullmatch(command):
        return _ONLY_AFFECTS
    if _LABEL.match(command):
        return "begins with a label, as of a rule or a paragraph"
    first = _FIRST_WORD.match(command)
    if first and first.group() not in _OF_THE_SHELL and not _SPECIAL.search(command):
        return None
    if command.startswith(("&", "|", ";")):
        return f'begins with "{command[0]}"'
    script = _Script(command)
    try:
        script.read_commands(nested=False)
    except _NotAloneError as error:
        return str(error)
    programs = script.programs - _WITHOUT_WORK or script.programs
    return _ONLY_AFFECTS if programs <= _ONLY_FOR_OTHERS else None


class _NotAloneError(Exception):
    """The reason why a text is not a complete command."""


class _Level:
    """The reader's state among the commands of one level: outside parentheses, or inside a ``$( )``."""

    def __init__(self) -> None:
        self.open: list[str] = []
        """Compound commands that are still open."""
        self.first = True
        """Whether a word here would be the program of a command."""
        self.begun = False
        """Whether assignments or redirections precede it, after which no word is a keyword."""
        self.pattern = False
        """Whether a word here is a pattern of a ``case``."""
        self.target = False
        """Whether a word here is the file of a redirection."""
        self.joined = ""
        """The preceding operator, if it needs another command after it."""

    def read_word(self, word: str) -> str | None:
        """Process a word; return it if it is the program of a command."""
        if self.target:
            self.target = False
        elif self.pattern:
            if word == "esac":
                self._close(word)
        elif self.first:
            return self._first_word(word)
        elif word == "in" and self.open[-1:] == ["case"]:
            self.pattern = True
        return None

    def _first_word(self, word: str) -> str | None:
        self.joined = ""
        if self.begun:
            return self._program(word)
        if word in _CLOSES:
            self._close(word)
        elif word in _INSIDE:
            if self.open[-1:] != [_INSIDE[word]]:
                raise _NotAloneError(f'begins with "{word}"')
        elif word in _OPENS:
            self.open.append(_OPENS[word])
            self.first = word in ("if", "while", "until", "{")
        elif word == "function":
            self.target = True  # its name is not a program either
        elif word not in ("!", "time"):
            return self._program(word)
        return None

    def _program(self, word: str) -> str | None:
        self.begun = True
        if _ASSIGNMENT.match(word):
            return None
        self.first = False
        return word

    def _close(self, word: str) -> None:
        if not self.open or self.open.pop() != _CLOSES[word]:
            raise _NotAloneError(f'has a "{word}" without a beginning')
        self.first = self.pattern = False

    def read_operator(self, kind: str, sign: str) -> None:
        """Process an operator."""
        if kind == "here":
            raise _NotAloneError("has a here-document, whose text would be on other lines")
        if kind == "redirection":
            self.target = self.begun = True
            self.joined = ""
        elif kind == "open" and not self.pattern:
            self.open.append("(")
            self.first, self.begun = True, False
        elif kind == "close" and not self.pattern:
            if not self.open or self.open.pop() != "(":
                raise _NotAloneError("has a closing parenthesis without an opening one")
            self.first = False
        else:
            self.first, self.begun = True, False
            self.pattern = kind == "branch" or (self.pattern and kind != "close")
            self.joined = sign if kind == "join" else ""

    def check_closed(self) -> None:
        """Raise an error if something is still open."""
        if self.open:
            raise _NotAloneError(f"has {_UNCLOSED[self.open[-1]]}")
        if self.joined:
            raise _NotAloneError(f'ends in "{self.joined}"')


class _Script:
    """Shell text, read once from left to right for its structure: quotes, compound commands, operators."""

    def __init__(self, text: str) -> None:
        self.programs: set[str] = set()
        """The first words of all commands, except for commands in quotes."""
        self._text = text
        self._at = 0

    def read_commands(self, *, nested: bool) -> None:
        """Read commands up to the end of the text, or to the parenthesis that closes the enclosing ``$(``."""
        level = _Level()
        while self._skip_blank():
            operator = _OPERATOR.match(self._text, self._at)
            if operator is None:
                self._take(level.read_word(self._read_word()))
                continue
            kind, sign = operator.lastgroup or "", operator.group()
            if kind == "open" and self._skip_arithmetic(self._at):
                continue
            if kind == "open" and self._skip_empty():
                level.first, level.begun = True, False  # the body of a function
                continue
            self._at = operator.end()
            if kind == "close" and nested and not level.pattern and "(" not in level.open:
                level.check_closed()
                return
            level.read_operator(kind, sign)
        level.check_closed()
        if nested:
            raise _NotAloneError("has an unclosed parenthesis")

    def _take(self, program: str | None) -> None:
        if program is not None:
            self.programs.add(program)

    def _skip_blank(self) -> bool:
        """Move to the next word or operator; return whether there is one."""
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _skip_empty(self) -> bool:
        """Skip the parentheses of ``name()``, which are followed by the body of a function."""
        found = _EMPTY.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found is not None

    # Words

    def _read_word(self) -> str:
        text, start = self._text, self._at
        while self._at < len(text):
            part = _WORD_PART.match(text, self._at)
            if part:
                self._at = part.end()
            elif text[self._at] == "(" and text[self._at - 1] == "=" and self._at > start:
                self._read_apart(self._at + 1)  # an array: name=(a b c)
            elif text.startswith(("<(", ">("), self._at):
                self._read_apart(self._at + 2)
            elif not self._skip_quoted():
                break
        return text[start : self._at]

    def _read_apart(self, start: int) -> None:
        """Read commands inside a word, whose programs are not the purpose of the line."""
        before, self.programs = self.programs, set()
        self._at = start
        self.read_commands(nested=True)
        self.programs = before

    def _skip_quoted(self) -> bool:
        """Skip a quotation, an escape or an expansion; return whether there was one."""
        character = self._text[self._at]
        if character == "'":
            self._skip_past("'", escapes=False)
        elif character == '"':
            self._skip_double_quoted()
        elif character == "`":
            self._skip_past("`", escapes=True)
        elif character == "\\":
            self._at += 2
        elif character == "$":
            self._skip_expansion(quoted=False)
        else:
            return False
        return True

    def _skip_past(self, closing: str, *, escapes: bool) -> None:
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 2 if character == "\\" and escapes else 1
            if character == closing:
                return
        raise _NotAloneError(_QUOTE)

    def _skip_double_quoted(self) -> None:
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return
            if character == "`":
                self._skip_past("`", escapes=True)
            elif character == "$":
                self._skip_expansion(quoted=True)
            else:
                self._at += 2 if character == "\\" else 1
        raise _NotAloneError(_QUOTE)

    def _skip_expansion(self, *, quoted: bool) -> None:
        """Skip the expansion that a dollar sign begins, or only the dollar sign."""
        text, at = self._text, self._at
        if text.startswith("$((", at) and self._skip_arithmetic(at + 1):
            return
        if text.startswith("$(", at):
            self._read_apart(at + 2)
        elif text.startswith("${", at):
            self._at += 2
            self._skip_braced()
        elif text.startswith("$'", at) and not quoted:
            self._at += 1
            self._skip_past("'", escapes=True)
        else:
            self._at += 1

    def _skip_braced(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] == "}":
                self._at += 1
                return
            if not self._skip_quoted():
                self._at += 1
        raise _NotAloneError("has an unclosed ${")

    def _skip_arithmetic(self, start: int) -> bool:
        """Skip ``((...))``; return whether it is here, rather than two separate parentheses."""
        depth = 0
        for at in range(start, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            if at == start + 1 and depth < 2:
                return False
            if depth == 0:
                self._at = at + 1
                return self._text[at - 1] == ")"
        return False
