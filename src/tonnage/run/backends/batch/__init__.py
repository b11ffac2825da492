"""The backend for clusters with a batch system: submits batch jobs and follows them."""
