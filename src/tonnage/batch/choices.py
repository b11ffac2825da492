"""What can be chosen about a simulated queue, by the names that the command line has for it."""

__all__ = ["POLICIES", "REQUESTS"]

POLICIES = ("conservative", "easy")
"""How the queue backfills."""
REQUESTS = ("accurate", "real")
"""What the jobs of a log ask for: as long as they run, or what the log says."""
