"""How long a test waits before it calls something hung."""

__all__ = ["HANGS"]

HANGS = 300.0  # seconds; a deadline only against hanging: what is judged is order and outcome
