"""A job holds back while enough waits in a lane."""

from types import SimpleNamespace

from spark_jobs.plan import WritePlan
from spark_jobs.sending.backlog import READ_SECONDS, LaneBacklog


class Counts:
    """Gives the number of waiting messages, one reading after the other."""

    def __init__(self, *waiting):
        self.left = list(waiting)
        self.readings = 0

    def get_queue_attributes(self, **_):
        """Give the next reading; the last stays."""
        self.readings += 1
        waiting = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return {"Attributes": {"ApproximateNumberOfMessages": str(waiting)}}


def backlog(counts, *, limit, tasks=1):
    """Make it with a clock that pauses move."""
    now, pauses = [0.0], []

    def pause(seconds):
        pauses.append(seconds)
        now[0] += seconds

    made = LaneBacklog(
        sqs=counts,
        queue_urls={"MAIN": "url"},
        max_messages=limit,
        tasks=tasks,
        clock=lambda: now[0],
        pause=pause,
    )
    return made, pauses, now


def test_while_there_is_room_nothing_waits_and_readings_are_few():
    """One reading serves many calls."""
    counts = Counts(100)
    made, pauses, now = backlog(counts, limit=1_000)
    for _ in range(50):
        made.wait("MAIN", 10)
    now[0] += READ_SECONDS
    made.wait("MAIN", 10)

    assert (counts.readings, pauses) == (2, [])


def test_it_waits_until_the_lane_has_emptied():
    """Readings are repeated, not too often."""
    counts = Counts(500, 400, 300, 80)
    made, pauses, _ = backlog(counts, limit=100)

    made.wait("MAIN", 10)

    assert pauses == [READ_SECONDS] * 3


def test_a_lane_at_its_limit_has_no_room():
    """Nothing is sent until a message has left."""
    made, pauses, _ = backlog(Counts(100, 99), limit=100)

    made.wait("MAIN", 1)

    assert pauses == [READ_SECONDS]


def test_the_room_of_a_reading_is_used_once_and_shared_by_tasks():
    """So the bound holds however fast the tasks are."""
    counts = Counts(0)
    made, pauses, _ = backlog(counts, limit=100, tasks=5)
    for _ in range(4):
        made.wait("MAIN", 10)

    assert (counts.readings, len(pauses)) == (2, 1)


def test_the_record_is_written_before_each_pause():
    """A job that is killed while it is held back has recorded all that was answered."""
    deployment = SimpleNamespace(queues={"MAIN": SimpleNamespace(url="url")})
    options = SimpleNamespace(max_backlog=100, max_tasks=1)
    clients = SimpleNamespace(sqs=lambda: Counts(100, 0))
    written = []
    record = SimpleNamespace(flush=lambda: written.append(True))
    made = WritePlan(options=options, deployment=deployment)._backlog(clients, lambda _: None, record)

    made.pause(0.0)

    assert written == [True]


def test_a_pause_says_what_holds_it():
    """At its start, and again every half a minute."""
    now, said = [0.0], []
    made = LaneBacklog(
        sqs=Counts(*[200] * 20, 0),
        queue_urls={"MAIN": "url"},
        max_messages=100,
        tasks=1,
        clock=lambda: now[0],
        pause=lambda seconds: now.__setitem__(0, now[0] + seconds),
        held=lambda lane, messages: said.append((now[0], lane, messages)),
    )

    made.wait("MAIN", 1)

    assert said == [(0.0, "MAIN", 200), (30.0, "MAIN", 200)]
