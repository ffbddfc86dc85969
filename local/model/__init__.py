"""
Documented behaviour of the AWS services the lanes rest on, as pure code with an injected clock.

Nothing here starts a thread, opens a socket or reads the time by itself, so the same rules serve the local
queues in real time and a simulation in virtual time.
"""
