"""
The rules of an event source mapping between an SQS FIFO queue and a function.

Pure decisions, standard library only: how many batches run at once, how long a throttled batch waits, which messages
an answer deletes. `lanes.testing`, the simulator and the emulator on your machine drive these rules, each with its
own clock, queue and function, so a correction is made once.
"""
