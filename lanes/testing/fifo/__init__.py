"""
One SQS FIFO queue as AWS documents it, as pure code with an injected clock.

Nothing here starts a thread, opens a socket or reads the time by itself, so the same rules serve tests, the local
queues in real time and a simulation in virtual time.
"""
