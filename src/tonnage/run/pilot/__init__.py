"""What runs inside batch jobs that carry many tasks: a pilot, and an agent on each node."""
