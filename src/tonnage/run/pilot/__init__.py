"""What runs inside of batch jobs that carry many tasks."""
