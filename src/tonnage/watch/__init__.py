"""What a command uses: the resource monitor.

``tonnage watch`` on the command line, `watch` from Python. Only the standard library is used, and little of it before
the command starts: the names below are imported when they are asked for.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tonnage.watch.call import watch
    from tonnage.watch.summary import Summary

__all__ = ["Summary", "watch"]


def __getattr__(name: str) -> object:
    if name == "watch":
        from tonnage.watch.call import watch

        return watch
    if name == "Summary":
        from tonnage.watch.summary import Summary

        return Summary
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
