"""The names that users see: each is in one registry, which can be read without heavy imports."""

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from click.testing import CliRunner

import tonnage
from tonnage.archive.registry import ENDINGS, EXPORTERS
from tonnage.batch.registry import SCHEDULERS
from tonnage.cli import tonnage as cli
from tonnage.lab.size_protocols import PROTOCOLS
from tonnage.lazy import Deferred
from tonnage.logs import formats as logs
from tonnage.pack import PACKERS
from tonnage.rank import METHODS
from tonnage.serve.routes.sizes import FILES
from tonnage.size import STRATEGIES
from tonnage.size.export import EXPORTERS as TOOLS
from tonnage.size.strategies import FROM_PEAKS, OFFLINE, WITH_OBJECTIVE
from tonnage.workflow import formats as workflows

PACKAGE = Path(tonnage.__file__).parent
ROOMS = ["archive", "batch", "pack", "rank", "size", "workflow"]
HEAVY = ["numpy", "numba", "sqlalchemy", "rich", "jinja2", "fastapi", "pyarrow"]


def deferred() -> Iterator[str]:
    """Yield every path that is imported only on first use."""
    for module in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                module_name, _, name = node.value.partition(":")
                if module_name.startswith("tonnage.") and name.isidentifier():
                    yield node.value
    readers = [reader.module for reader in workflows.READERS.values()] + [log.module for log in logs.READERS.values()]
    for reader in readers:
        yield from (f"{reader}:recognises", f"{reader}:read")
    for writer in workflows.WRITERS.values():
        yield f"{writer.module}:render"


@pytest.mark.parametrize("path", sorted(set(deferred())))
def test_what_a_registry_names_is_there(path: str) -> None:
    assert callable(Deferred(path).load())


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_exports_what_it_says_and_no_module_hides_it(room: str) -> None:
    package = import_module(f"tonnage.{room}")
    modules = {module.name for module in iter_modules(package.__path__)}
    assert not modules & set(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_names_of_some_strategies_are_names_of_strategies() -> None:
    assert {*OFFLINE, *WITH_OBJECTIVE, *FROM_PEAKS} <= set(STRATEGIES)
    assert set(ENDINGS.values()) == set(EXPORTERS)


def test_every_batch_system_has_the_name_of_its_class() -> None:
    for name, system in SCHEDULERS.items():
        assert system.connect().name == name


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("size", STRATEGIES),
        ("size", TOOLS),
        ("rank", METHODS),
        ("pack", PACKERS),
        ("replay size", PROTOCOLS),
    ],
)
def test_help_names_everything_that_can_be_chosen(verb: str, names: dict[str, object]) -> None:
    text = CliRunner().invoke(cli, [*verb.split(), "--help"]).output
    assert [name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)] == []


def test_every_settings_file_can_be_downloaded() -> None:
    assert set(FILES) == set(TOOLS)


def test_a_function_that_was_not_imported_yet_can_be_sent_to_another_process() -> None:
    packer = PACKERS["glume"]
    assert pickle.loads(pickle.dumps(packer)) == packer


def test_every_registry_is_read_without_what_its_entries_need() -> None:
    registries = (
        "archive.registry batch.registry logs.formats pack.packers rank.methods size.export lab.size_protocols"
        " size.strategies workflow.formats"
    )
    code = f"import sys, {', '.join('tonnage.' + name for name in registries.split())}"
    assert loaded(code) == []


def test_the_help_of_every_verb_needs_nothing_heavy() -> None:
    """Except that of `generate`, whose families are a table of numbers."""
    code = (
        "import contextlib, io, sys\n"
        "from tonnage.cli import VERBS, main\n"
        "below = {'replay': ('size', 'rank', 'pack', 'run'), 'archive': ('export', 'stats', 'query', 'import')}\n"
        "verbs = [(verb,) for verb in VERBS if verb != 'generate']\n"
        "for words in [*verbs, *((verb, word) for verb, words in below.items() for word in words)]:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "        main([*words, '--help'])\n"
        "    assert 'Usage' in out.getvalue() or 'usage' in out.getvalue(), words\n"
    )
    assert loaded(code) == []


def loaded(code: str) -> list[str]:
    code += f"\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout)
    assert isinstance(found, list)
    return found
