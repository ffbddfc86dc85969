"""
The consumer: one Lambda batch of one lane, handled record by record and answered honestly.

A batch goes down these rooms in order: `records` (what Lambda brought) -> `gate` (may the next record start, or
does more urgent work wait?) -> `attempts` (which attempt this is) -> `handlers` (the user's code) -> `settlement`
(what goes back, when it returns, and what the ledger must know) -> `waking` (parked records that may return now).
"""

from lanes.consumer.consumer import Consumer
from lanes.consumer.context import HandlerContext
from lanes.consumer.records import RawRecord

__all__ = ["Consumer", "HandlerContext", "RawRecord"]
