"""
`lanes work`: the pull engine as a process.

`supervisor.py` keeps one process for each slot, `process.py` starts it, and `slot.py` runs in it.
"""
