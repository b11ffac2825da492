"""Texts as every database accepts them."""

__all__ = ["clean", "short"]

_LONGEST = 1024  # bytes: an index row in PostgreSQL holds at most 2,704


def short(value: str | None) -> str | None:
    """Return a text that fits into an index of any database: truncated if it is far longer than any name."""
    text = clean(value)
    if text is None or len(text) < _LONGEST // 4:
        return text
    return text.encode("utf-8")[:_LONGEST].decode("utf-8", "ignore")


def clean(value: str | None) -> str | None:
    """Return a text that every database accepts: without NUL and without unpaired surrogates."""
    if value is None or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
