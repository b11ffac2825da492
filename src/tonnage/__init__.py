"""Tonnage sizes, ranks and packs the jobs of a scientific workflow, runs them, and learns from every run."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.run.executor import Executor as Executor
    from tonnage.run.futures import TaskFailedError as TaskFailedError

__all__ = ["Executor", "TaskFailedError", "__version__"]

__version__ = "0.1.0"

# What stands here by name and is loaded when it is asked for: most of Tonnage must start fast.
_LAZY = {"Executor": "tonnage.run.executor", "TaskFailedError": "tonnage.run.futures"}


def __dir__() -> "list[str]":
    return __all__


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
