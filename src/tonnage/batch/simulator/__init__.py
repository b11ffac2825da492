"""A batch queue that is simulated: first come first served with backfilling, on recorded or synthetic jobs."""
