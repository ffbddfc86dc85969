"""
The consumer in virtual time: the deployed code, unmodified, over a model of its queues, mappings and function.

Documented behaviour of AWS is shared with `local`; undocumented behaviour is a parameter here. The seed decides every
run.
"""
