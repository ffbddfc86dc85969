"""The stack of `lanes probe run`: queues, functions and a table that measure the behaviour of AWS."""
