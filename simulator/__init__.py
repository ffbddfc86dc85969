"""
The consumer in virtual time: the deployed code, unmodified, over a model of its queues, mappings and function.

What AWS documents is shared with `local` (`local.model`); what it leaves open is a parameter here. Every run is
decided by its seed.
"""
