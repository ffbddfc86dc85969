"""The pauses of a relay, and an outage of its store."""

from datetime import timedelta

import pytest

from lanes.errors import OutboxStoreError
from tests.support.outbox_relay import Run


def test_an_idle_relay_pauses_ever_longer_and_wakes_at_once(sqlite_subject, clock):
    """Idle costs a claim a tick; work resets the pause."""
    run = Run(sqlite_subject, clock)
    pauses = []

    def pause(length):
        pauses.append(length)
        if len(pauses) == 3:
            run.write("a")

    run.relay.run(should_stop=lambda: len(pauses) == 4, pause=pause)
    assert pauses == [timedelta(milliseconds=20 * factor) for factor in (1, 2, 4, 1)]
    assert run.sent() == ["a"]


def test_an_outage_of_the_store_is_waited_out(sqlite_subject, clock, monkeypatch):
    """A relay that polls does not end for what passes, and ends for what does not."""
    run = Run(sqlite_subject, clock)
    run.write("a")
    claim = sqlite_subject.store.claim
    outages = iter([OutboxStoreError("gone", retryable=True)] * 2)

    def unsteady(*args, **kwargs):
        if outage := next(outages, None):
            raise outage
        return claim(*args, **kwargs)

    monkeypatch.setattr(sqlite_subject.store, "claim", unsteady)
    pauses = []
    run.relay.run(should_stop=lambda: len(pauses) == 3, pause=pauses.append)
    assert run.sent() == ["a"]
    assert len(pauses) == 3

    outages = iter([OutboxStoreError("no such table", retryable=False)])
    with pytest.raises(OutboxStoreError, match="no such table"):
        run.relay.run(should_stop=lambda: False, pause=pauses.append)
