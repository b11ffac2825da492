"""How long a test waits before it considers something hung."""

__all__ = ["HANGS"]

HANGS = 300.0  # seconds; only a guard against hanging: tests check order and outcome, not speed
