"""A first producer: run `python -m examples.first.send`, with LANES_STACK set for another stack."""

import os

from lanes import Priority, Producer

producer = Producer.from_stack(os.environ.get("LANES_STACK", "PriorityLanes"))

everyday = producer.send("order.placed", {"order": 7}, group="customer-3")
urgent = producer.send("order.placed", {"order": 8}, group="customer-4", priority=Priority.HIGH)

for sent in (everyday, urgent):
    print(sent.id, "went to", sent.lane)
