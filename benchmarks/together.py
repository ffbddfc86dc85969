"""
Batch handlers: messages a second with ten messages in one call against one: `python -m benchmarks.together --json`.

The real consumer in virtual time, one slot, messages of different groups that all wait at the start. A call of the
resource takes 40 ms and 1 ms for each message in it, as an endpoint does that takes several at once.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from lanes.config import EngineName, LanesConfig
from lanes.consumer import Consumer
from lanes.testing import InMemoryLanes

if TYPE_CHECKING:
    from lanes.message import Message

MESSAGES = 1000
CALL = timedelta(milliseconds=40)
EACH = timedelta(milliseconds=1)
SIZES = (1, 3, 10)


def measure(*, quick: bool, seed: int) -> Findings:
    """Measure each size of a call in each engine."""
    messages = MESSAGES // 10 if quick else MESSAGES
    rows, figures = [], {}
    for engine in EngineName:
        found = {size: per_second(engine, size, messages=messages, seed=seed) for size in SIZES}
        rows += [(engine.value, size, round(rate, 1)) for size, rate in found.items()]
        suffix = "" if engine is EngineName.MAPPINGS else f"_{engine}"
        figures[f"per_second_one_a_call{suffix}"] = round(found[1], 1)
        figures[f"per_second_ten_a_call{suffix}"] = round(found[10], 1)
        figures[f"ten_over_one{suffix}"] = round(found[10] / found[1], 2)
    columns = ("engine", "messages a call", "messages a second")
    title = f"{messages} messages, a call takes 40 ms and 1 ms for each message"
    return Findings(figures=figures, tables=[Table(title=title, columns=columns, rows=rows)])


def per_second(engine: EngineName, size: int, *, messages: int, seed: int) -> float:
    """Return the messages a second of a batch handler that takes up to so many in one call."""
    consumer = Consumer()
    config = LanesConfig.from_dict({"consumer": {"engine": engine.value}})
    lanes = InMemoryLanes(consumer, config=config, seed=seed)

    @consumer.batch_handler("invoice", max_size=size)
    def post(batch: list[Message[Any]]) -> None:
        lanes.clock.advance(CALL + len(batch) * EACH)

    for _ in range(messages):
        lanes.producer.send("invoice", {})
    began = lanes.clock.now
    lanes.run_until(lambda: len(lanes.journal.handled) == messages, most_handlings=2 * messages)
    return messages / (lanes.clock.now - began)


if __name__ == "__main__":
    sys.exit(run("together", measure, about="Messages a second with ten messages in one call against one."))
