"""Runs on an HTCondor pool: DAGMan starts the tasks there, and an event log tells what becomes of them."""
