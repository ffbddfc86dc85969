"""The batch that `benchmarks.overhead` measures."""

import pytest

from benchmarks import stubbed
from tests.support.memory import Recorder


@pytest.mark.parametrize("records", [1, 10])
def test_the_measured_batch_is_handled_and_reports_nothing_else(records):
    """Else the figures hold the price of a failed call and its traceback, once a batch."""
    telemetry = Recorder()

    response = stubbed.consumer(telemetry)(stubbed.event_of(records), stubbed.Context())

    assert response == {"batchItemFailures": []}
    assert [name for name, _ in telemetry.events] == ["message_handled"] * records
    assert not telemetry.problems
