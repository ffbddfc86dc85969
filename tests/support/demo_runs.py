"""Made-up runs of the demo, recorded message by message."""

from local.demo.evidence import DeadLetter, Delivery, Effect, Ending, Evidence, LiveSend, Sent
from local.demo.figures import RunRules

LANES = ("HIGH", "MEDIUM", "MAIN")
BEGAN_AT = 1_000.0
RULES = RunRules(max_attempts=3, recheck_seconds=0.25, slots=1, batch_size=10, idempotency=False)


class MadeUpRun:
    """Collects the evidence of a run; times are seconds after its beginning."""

    def __init__(self):
        self._sent, self._deliveries, self._effects = {}, [], []
        self._dead_letters, self._live_sends = [], []
        self.left_in_queues = 0
        self.calls = {}

    def send(self, one, lane="MAIN", *, group="g", at=-10.0, delivered=True, position=None, fault=None):
        """Record a message that a queue accepted; the order of the calls is the queue's."""
        self._sent[one] = Sent(
            id=one, traffic=lane, lane=lane, position=position, fault=fault, is_live=lane != "MAIN"
        )
        if delivered:
            self._deliveries.append(
                Delivery(
                    id=one,
                    lane=lane,
                    group=group,
                    sequence=len(self._sent),
                    sent_at=BEGAN_AT + at,
                    receive_count=1,
                )
            )
        return self

    def finish(self, one, start, end):
        """Record a handler that finished."""
        return self._effect(one, start, end, Ending.FINISHED)

    def refuse(self, one, start, end=None):
        """Record a handler that failed."""
        return self._effect(one, start, start if end is None else end, Ending.REFUSED)

    def crash(self, one, start):
        """Record a handler that started and never ended."""
        return self._effect(one, start, None, None)

    def bury(self, one, lane="MAIN", reason="attempts exhausted"):
        """Record a message in a dead-letter queue."""
        self._dead_letters.append(DeadLetter(id=one, lane=lane, reason=reason))
        return self

    def live(self, *, waiting):
        """Record an episode and the backlog at that moment."""
        self._live_sends.append(LiveSend(at=BEGAN_AT, messages=1, waiting=waiting))
        return self

    def _effect(self, one, start, end, ending):
        attempt = 1 + sum(1 for effect in self._effects if effect.id == one)
        self._effects.append(
            Effect(
                id=one,
                attempt=attempt,
                started_at=BEGAN_AT + start,
                ended_at=None if end is None else BEGAN_AT + end,
                ending=ending,
            )
        )
        return self

    @property
    def evidence(self):
        """All of it."""
        return Evidence(
            lanes=LANES,
            began_at=BEGAN_AT,
            sent=dict(self._sent),
            deliveries=tuple(self._deliveries),
            effects=tuple(self._effects),
            dead_letters=tuple(self._dead_letters),
            live_sends=tuple(self._live_sends),
            left_in_queues=self.left_in_queues,
            function_calls=dict(self.calls),
        )


def quiet_run(*, high_wait=0.3, seconds_a_record=0.01):
    """A run without fault: twenty of the backfill, and a payment after ten of them."""
    run = MadeUpRun().live(waiting=500)
    for number in range(20):
        start = number * seconds_a_record + (high_wait if number >= 10 else 0)
        run.send(f"bulk-{number}").finish(f"bulk-{number}", start, start + seconds_a_record)
    arrives = 10 * seconds_a_record
    run.send("pay", "HIGH", group="p", at=arrives, position=1)
    run.finish("pay", arrives + high_wait - seconds_a_record, arrives + high_wait)
    run.calls = {"sqs.GetQueueAttributes": 5}
    return run
