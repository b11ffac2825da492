"""How much to give a job: strategies that turn what past jobs used into what the next are tried with."""
