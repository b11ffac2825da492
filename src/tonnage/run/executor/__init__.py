"""`tonnage.Executor`, which runs functions and commands that a Python program submits."""
