"""
The consumer: one batch of one lane, handled record by record and answered honestly.

`consumer.py` is the door and `runtime.py` assembles the rooms behind it. An engine (`engines/`) receives the event; the
corridor (`batch.py`) takes each record past the interceptors (`interceptors/`) to its attempt (`attempts.py`) and its
outcome (`outcome.py`); `settlement.py` brings the outcomes to the queue and the ledger (`ledger.py`).
"""

from lanes.consumer.consumer import Consumer
from lanes.consumer.handlers import HandlerContext
from lanes.consumer.records import RawRecord

__all__ = ["Consumer", "HandlerContext", "RawRecord"]
