"""Operate a deployed stack: its functions, mappings, queues and tables behind one object."""
