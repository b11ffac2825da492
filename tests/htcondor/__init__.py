"""A small local stand-in for an HTCondor pool: it is not HTCondor, but it speaks its languages and really runs jobs."""
