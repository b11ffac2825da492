"""Job logs of other tools: one module per log format, and synthetic logs for experiments."""
