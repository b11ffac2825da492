"""Running a workflow: the engine, its journal, and the worlds it drives."""
