"""A minimal PBS: all that a new batch system takes, and programs that really run scripts. Nothing else knows it."""
