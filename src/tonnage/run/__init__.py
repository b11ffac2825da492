"""Running a workflow: the engine, its journal, and the backends that it drives."""
