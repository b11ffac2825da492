"""Tonnage sizes, ranks and packs the jobs of a scientific workflow, runs them, and learns from every run."""

__all__ = ["Executor", "TaskFailedError", "__version__"]

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.run.executor.executor import Executor as Executor
    from tonnage.run.executor.futures import TaskFailedError as TaskFailedError
else:  # what has a name here is loaded when it is asked for: most of Tonnage must start fast
    _LAZY = {"Executor": "tonnage.run.executor.executor", "TaskFailedError": "tonnage.run.executor.futures"}

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)

    def __dir__() -> "list[str]":
        return __all__
