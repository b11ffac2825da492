"""Backends, on which tasks run: this machine, a batch system (`batch/`), or an HTCondor pool (`htcondor/`)."""
