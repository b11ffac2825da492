"""Hot loops run interpreted or compiled, wherever the package is installed."""

import subprocess
import sys

from tonnage.jit import COMPILE_FROM, compiled


def double(value: int) -> int:
    return 2 * value


def quadruple(value: int) -> int:
    return double(double(value))


def test_a_kernel_may_call_other_functions_of_its_module() -> None:
    for allocates in (True, False):
        twin = compiled(quadruple, COMPILE_FROM, allocates=allocates)
        assert twin is not quadruple
        assert twin(5) == 20
    assert quadruple(5) == 20


def test_a_small_input_runs_the_function_itself_and_a_large_one_its_compiled_twin() -> None:
    assert compiled(double, COMPILE_FROM - 1) is double
    twin = compiled(double, COMPILE_FROM)
    assert twin is not double
    assert twin(21) == 42
    assert compiled(double, COMPILE_FROM + 1) is twin


def test_compiling_works_where_nothing_can_be_kept() -> None:
    # Code that is not in a file has no place for a cache, like a package in a read-only folder.
    code = "from tonnage.jit import compiled\ndef f(x):\n    return x + 1\nprint(compiled(f, 10**6)(1))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "2\n"


def test_without_numba_large_inputs_run_the_plain_function_and_that_is_said_once() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from tonnage.workflow.families import FAMILIES; from tonnage.rank import rank\n"
        "w = FAMILIES['airsn'].generate(tasks=12_000); print(len(rank(w)), w.graph.level.max())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.count("pip install 'tonnage[fast]'") == 1
    with_numba = subprocess.run(
        [sys.executable, "-c", code.replace("sys.modules['numba'] = None", "")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == with_numba.stdout
    assert with_numba.stderr == ""


def test_small_workflows_never_load_numba() -> None:
    code = (
        "import sys; from tonnage.workflow.families import FAMILIES; w = FAMILIES['airsn'].generate(); "
        "w.critical_path, w.graph.descendants, w.graph.reduced(); print('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
