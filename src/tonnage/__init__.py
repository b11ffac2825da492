"""Tonnage sizes, ranks and packs the jobs of a scientific workflow, runs them, and learns from every run.

The names below are its public interface; everything else may change without notice.
"""

__all__ = [
    "Attempt",
    "Executor",
    "InputError",
    "Recommendations",
    "Summary",
    "Task",
    "TaskFailedError",
    "TaskFuture",
    "TonnageError",
    "Workflow",
    "__version__",
    "measure",
    "prioritise",
    "read",
    "read_jobs",
    "recommend",
    "write",
]

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.api import Recommendations, prioritise, read_jobs, recommend
    from tonnage.errors import InputError, TaskFailedError, TonnageError
    from tonnage.jobs import Attempt
    from tonnage.run.executor.executor import Executor
    from tonnage.run.executor.futures import TaskFuture
    from tonnage.watch.call import measure
    from tonnage.watch.summary import Summary
    from tonnage.workflow.formats import read, write
    from tonnage.workflow.model import Task, Workflow
else:

    def __getattr__(name: str) -> object:
        # Loaded when it is used: most of Tonnage must start fast; even tonnage.lazy would hold watch up.
        if name.startswith("_") or name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tonnage.lazy import exports

        return exports(__name__)(name)

    def __dir__() -> "list[str]":
        return __all__
