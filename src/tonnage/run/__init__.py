"""The engine: runs the tasks of a workflow on this machine."""
