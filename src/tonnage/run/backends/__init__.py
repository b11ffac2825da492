"""Where a run takes place: this machine, a batch system (`batch/`), or an HTCondor pool (`htcondor/`)."""
