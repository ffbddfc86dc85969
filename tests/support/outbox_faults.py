"""Lanes of an outbox that fail for a time, and a relay whose telemetry is kept, in virtual time."""

from collections import Counter

from lanes.errors import AwsError
from lanes.outbox.entry import EntryState
from lanes.producer.outgoing import Refused
from tests.support.outbox import Run
from tests.support.sending import FakeSqs, id_in, queue_url


def call_error(code, *, retryable, answered=True):
    """Return a fault that fails a whole call."""

    def fail(_entries):
        raise AwsError(
            operation="SendMessageBatch", code=code, message="no", retryable=retryable, answered=answered
        )

    return fail


def refusals(code, *, retryable):
    """Return a fault that refuses each entry of a call."""

    def refuse(entries):
        return {entry.entry_id: Refused(code=code, reason="no", retryable=retryable) for entry in entries}

    return refuse


CAUSES = {
    "unreachable": call_error("EndpointConnectionError", retryable=True, answered=False),
    "server_fault": call_error("ServiceUnavailable", retryable=True, answered=False),
    "throttled": refusals("RequestThrottled", retryable=True),
    "credentials": call_error("ExpiredToken", retryable=False),
    "permission": call_error("AccessDenied", retryable=False),
    "missing": call_error("AWS.SimpleQueueService.NonExistentQueue", retryable=False),
    "other": call_error("UnsupportedOperation", retryable=False),
}


class FaultySqs(FakeSqs):
    """Queues that fail from now on, until told otherwise; each call takes a moment of virtual time."""

    def __init__(self, clock, seconds=0.02):
        super().__init__()
        self.faults = {}
        self.tried = []
        self.clock, self.seconds = clock, seconds

    def send_batch(self, url, entries):
        """Fail as the lane does, or accept."""
        self.clock.advance(self.seconds)
        self.tried += [(self.clock(), url, id_in(entry.message_deduplication_id)) for entry in entries]
        fault = self.faults.get(url)
        return super().send_batch(url, entries) if fault is None else fault(entries)


class Told:
    """Keeps what a relay reports."""

    def __init__(self):
        self.counts = Counter()
        self.lanes = Counter()
        self.outages, self.recoveries, self.refused, self.slow = [], [], [], []

    def count(self, metric, value=1):
        self.counts[metric] += value

    def not_sent(self, entry, mark, *, reason):
        self.refused.append((entry.id, mark.state))

    def round(self, outcome, marks, *, now, seconds):
        self.counts["lost"] += outcome.lock_lost

    def slow_round(self, seconds):
        self.slow.append(seconds)

    def lane_failed(self, lane, cause):
        self.lanes[lane, cause.value] += 1

    def outage(self, outage, *, now):
        self.outages.append((now, outage))

    def recovered(self, outage, *, now):
        self.recoveries.append((now, outage))

    def status(self, status, *, now):
        """Nothing."""

    def flush(self):
        """Nothing."""


class Faulty(Run):
    """A relay with lanes that fail, run in virtual time."""

    def __init__(self, subject, clock, **outbox):
        self.told = Told()
        super().__init__(subject, clock, context={"telemetry": self.told}, **outbox)
        self.sqs = FaultySqs(clock)
        self.relay._publication._producer._sqs = self.sqs

    def fail(self, lane, cause):
        """Let a lane fail from now on; None lets it accept."""
        self.sqs.faults[queue_url(lane)] = None if cause is None else CAUSES[cause]

    def run(self, seconds, *, at=()):
        """Run the relay for so long; call each function of `at` at its time."""
        due = sorted(at, key=lambda one: one[0])
        ends = self.clock() + seconds

        def pause(length):
            self.clock.advance(length.total_seconds())
            while due and due[0][0] <= self.clock():
                due.pop(0)[1]()

        self.relay.run(should_stop=lambda: self.clock() >= ends, pause=pause)

    def states(self):
        """Count the entries by state."""
        return Counter(entry.state for entry in self.subject.operations.entries(frozenset(EntryState)))

    def attempts(self):
        """Sum up the failed attempts of all entries."""
        entries = self.subject.operations.entries(frozenset(EntryState))
        return sum(entry.attempts for entry in entries)
