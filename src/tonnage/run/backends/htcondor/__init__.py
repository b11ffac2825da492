"""The backend for HTCondor pools: DAGMan starts the tasks, and their event log is followed."""
