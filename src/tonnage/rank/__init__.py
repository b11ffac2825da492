"""Which task goes first: PRIO and its rivals."""
