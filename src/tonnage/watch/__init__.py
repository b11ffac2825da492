"""What a command uses: the resource monitor.

``tonnage watch`` on the command line, `tonnage.measure` from Python. Only the standard library is used, and little of
it before the command starts.
"""
