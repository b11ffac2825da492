"""What tools wrote down about jobs: one module per log format, and synthetic logs for experiments."""
