"""What past attempts used: the store, and nothing else."""
