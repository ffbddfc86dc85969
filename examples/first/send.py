"""A first producer: `python examples/first/send.py [STACK]`."""

import sys

from lanes import Priority, Producer

stack = sys.argv[1] if len(sys.argv) > 1 else "PriorityLanes"
producer = Producer.from_stack(stack)

everyday = producer.send("order.placed", {"order": 7}, group="customer-3")
urgent = producer.send("order.placed", {"order": 8}, group="customer-4", priority=Priority.HIGH)

for sent in (everyday, urgent):
    sys.stdout.write(f"{sent.id} went to {sent.lane}\n")
