"""Hot loops run as they are or compiled, wherever the package is installed."""

import subprocess
import sys

from tonnage.jit import COMPILE_FROM, fast


def double(value: int) -> int:
    return 2 * value


def quadruple(value: int) -> int:
    return double(double(value))


def test_a_kernel_may_call_other_functions_of_its_module() -> None:
    for allocates in (True, False):
        compiled = fast(quadruple, COMPILE_FROM, allocates=allocates)
        assert compiled is not quadruple
        assert compiled(5) == 20
    assert quadruple(5) == 20


def test_a_small_input_runs_the_function_itself_and_a_large_one_its_compiled_twin() -> None:
    assert fast(double, COMPILE_FROM - 1) is double
    compiled = fast(double, COMPILE_FROM)
    assert compiled is not double
    assert compiled(21) == 42
    assert fast(double, COMPILE_FROM + 1) is compiled


def test_compiling_works_where_nothing_can_be_kept() -> None:
    # Code that stands in no file has no place for a cache, as a package in a closed folder has none.
    code = "from tonnage.jit import fast\ndef f(x):\n    return x + 1\nprint(fast(f, 10**6)(1))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "2\n"


def test_small_workflows_never_load_numba() -> None:
    code = (
        "import sys; from tonnage.workflow.families import FAMILIES; w = FAMILIES['airsn'].generate(); "
        "w.critical_path, w.graph.descendants, w.graph.reduced(); print('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
