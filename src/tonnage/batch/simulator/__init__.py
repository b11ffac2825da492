"""A simulated batch queue: first come, first served with backfilling, for recorded or synthetic jobs."""
