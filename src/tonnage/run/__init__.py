"""Running a workflow: the engine, its journal, and the backends on which tasks run."""
