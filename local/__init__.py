"""The system on one machine: documented AWS behaviour, queues, mappings and the demo, without an account."""
