"""A cluster as the place of a run: batch jobs are sent, and heard of."""
