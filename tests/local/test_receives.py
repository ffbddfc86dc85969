"""The file in which the server records the receives of FIFO queues."""

from lanes.testing.fifo.queue import FifoQueue
from local.receives import Receive, read_receives, write_receives


def test_receives_are_read_as_the_queue_answered_them(tmp_path):
    """Each time, with the count of that time."""
    now = [1_700_000_000.125]
    queue, path = FifoQueue(lambda: now[0]), tmp_path / "receives.jsonl"
    sent = queue.send('{"id": "größer"}', group="g", deduplication_id="1")
    for _ in range(2):
        write_receives(path, "main.fifo", queue.receive())
        now[0] += queue.settings.visibility_timeout.total_seconds()

    first, second = read_receives(path)

    assert first == Receive(
        queue="main.fifo",
        group="g",
        sequence=sent.sequence_number,
        sent_at=1_700_000_000.125,
        receive_count=1,
        body='{"id": "größer"}',
    )
    assert (second.sequence, second.receive_count) == (first.sequence, 2)
