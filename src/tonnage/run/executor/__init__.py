"""`tonnage.Executor`: functions and commands that a Python program submits while it runs."""
