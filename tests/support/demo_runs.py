"""Made-up runs of the demo, recorded message by message."""

from lanes.config import LanesConfig
from local.demo.evidence import Delivery, Effect, Evidence, Sent
from simulator import oracle

BEGAN_AT = 1_000.0


def config_of(**consumer):
    """Return three lanes, one slot and three attempts."""
    return LanesConfig.from_dict(
        {"consumer": {"max_attempts": 3, "recheck_interval": "250ms", "reserved_concurrency": 1} | consumer}
    )


class MadeUpRun:
    """Collects the evidence of a run; times are seconds after its beginning."""

    def __init__(self, **consumer):
        self.config = config_of(**consumer)
        self.left = 0
        self.back_at = 0.0
        self.calls = {}
        self._sent, self._deliveries, self._effects, self._dead, self._backlogs = {}, [], [], [], []

    def send(self, one, lane="MAIN", *, group="g", at=-10.0, delivered=True, sequence=None, fault=None):
        """Record a message that a queue accepted; by default the order of the calls is the queue's."""
        self._sent[one] = Sent(traffic=lane, fault=fault, is_live=lane != "MAIN")
        if delivered:
            place = sequence or len(self._sent)
            self._deliveries.append(
                Delivery(id=one, lane=lane, group=group, sequence=place, sent_at=BEGAN_AT + at)
            )
        return self

    def finish(self, one, start, end, *, attempt=None):
        """Record a handler that finished; by default its attempt is counted as promised."""
        return self._effect(one, start, end, "done", attempt=attempt)

    def refuse(self, one, start, end=None):
        """Record a handler that failed."""
        return self._effect(one, start, start if end is None else end, "failed")

    def crash(self, one, start):
        """Record a handler that started and never ended."""
        return self._effect(one, start, start, "died")

    def find_away(self, one, start):
        """Record a handler that found the resource away."""
        return self._effect(one, start, start, "away")

    def bury(self, one, reason="attempts exhausted"):
        """Record a message in a dead-letter queue."""
        self._dead.append((one, reason))
        return self

    def live(self, *, waiting):
        """Record the backlog after an episode."""
        self._backlogs.append(waiting)
        return self

    def _effect(self, one, start, end, how, *, attempt=None):
        failures = sum(effect.id == one and effect.how in oracle.FAILURES for effect in self._effects)
        times = {"started_at": BEGAN_AT + start, "ended_at": BEGAN_AT + end}
        self._effects.append(Effect(id=one, attempt=attempt or failures + 1, how=how, **times))
        return self

    @property
    def evidence(self):
        """All of it."""
        return Evidence(
            config=self.config,
            began_at=BEGAN_AT,
            back_at=BEGAN_AT + self.back_at,
            sent=dict(self._sent),
            deliveries=tuple(self._deliveries),
            effects=tuple(self._effects),
            dead=tuple(self._dead),
            backlogs=tuple(self._backlogs),
            left=self.left,
            calls=dict(self.calls),
        )


def quiet_run(*, high_wait=0.3, seconds_a_record=0.01):
    """A run without fault: twenty of the backfill, and a payment after ten of them."""
    run = MadeUpRun().live(waiting=500)
    for number in range(20):
        start = number * seconds_a_record + (high_wait if number >= 10 else 0)
        run.send(f"bulk-{number}").finish(f"bulk-{number}", start, start + seconds_a_record)
    arrives = 10 * seconds_a_record
    run.send("pay", "HIGH", group="p", at=arrives)
    run.finish("pay", arrives + high_wait - seconds_a_record, arrives + high_wait)
    run.calls = {"sqs.GetQueueAttributes": 5}
    return run


OUTAGE = tuple(f"{name}-{number}" for name in ("pay", "bulk") for number in range(4))
"""Messages of a made-up outage in the order in which they should be handled."""


def away_run(order=OUTAGE):
    """Make an outage of 12 s with six calls, of MAIN until HIGH arrives; then its messages are handled in an order."""
    run = MadeUpRun()
    run.back_at = 12.0
    for one in sorted(OUTAGE):
        run.send(
            one,
            "HIGH" if one.startswith("pay") else "MAIN",
            group=one,
            at=0.1 if one.startswith("pay") else 0,
        )
    tries = {0.0: "bulk-0", 0.01: "bulk-1", 0.02: "bulk-2", 1: "pay-0", 3: "pay-1", 7: "pay-2"}
    for at, one in tries.items():
        run.find_away(one, at)
    for place, one in enumerate(order):
        run.finish(one, 15 + place * 0.01, 15.01 + place * 0.01)
    return run
