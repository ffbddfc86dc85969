"""Write a message to the outbox of a stack."""

import os

from lanes.outbox import DynamoOutbox

outbox = DynamoOutbox.from_stack(os.environ.get("LANES_STACK", "shop"))

with outbox.transaction() as tx:
    tx.add("order.placed", {"order": 9}, group="customer-5")
