"""A job holds back while enough waits in a lane."""

from types import SimpleNamespace

from spark_jobs.plan import WritePlan
from spark_jobs.sending.pace import READ_SECONDS, LaneBacklog, Shared, SharedFile


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


def backlog(counts, *, limit, share=1.0):
    """Make it with a clock that pauses move."""
    now, pauses = [0.0], []

    def pause(seconds):
        pauses.append(seconds)
        now[0] += seconds

    made = LaneBacklog(
        sqs=counts,
        queue_urls={"MAIN": "url"},
        max_messages=limit,
        share=share,
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


def test_the_room_of_a_reading_is_used_once_and_shared_by_executors():
    """So the bound holds however fast the tasks are."""
    counts = Counts(0)
    made, pauses, _ = backlog(counts, limit=100, share=0.2)
    for _ in range(4):
        made.wait("MAIN", 10)

    assert (counts.readings, len(pauses)) == (2, 1)


def test_the_record_is_written_before_each_pause():
    """A job that is killed while it is held back has recorded all answers, and one that is taken over ends."""
    deployment = SimpleNamespace(queues={"MAIN": SimpleNamespace(url="url")})
    options = SimpleNamespace(max_backlog=100)
    clients = SimpleNamespace(sqs=lambda: Counts(100, 0))
    written = []
    record = SimpleNamespace(flush=lambda: written.append(True), keep=lambda: written.append(None))
    made = WritePlan(options=options, deployment=deployment)._backlog(clients, Shared(), 1.0, record)

    made.pause(0.0)

    assert written == [True, None]


def test_a_pause_says_what_holds_it():
    """At its start, and again every half a minute."""
    now, said = [0.0], []
    made = LaneBacklog(
        sqs=Counts(*[200] * 20, 0),
        queue_urls={"MAIN": "url"},
        max_messages=100,
        clock=lambda: now[0],
        pause=lambda seconds: now.__setitem__(0, now[0] + seconds),
        held=lambda lane, messages: said.append((now[0], lane, messages)),
    )

    made.wait("MAIN", 1)

    assert said == [(0.0, "MAIN", 200), (30.0, "MAIN", 200)]


def test_a_lone_straggler_has_the_whole_room_of_its_executor(tmp_path):
    """The tasks that have ended leave their room to it: an empty lane is filled, and nothing is held."""
    counts, said, pauses = Counts(0), [], []
    tasks = [
        LaneBacklog(
            sqs=counts,
            queue_urls={"MAIN": "url"},
            max_messages=1_000,
            shared=SharedFile(tmp_path / "backlog"),
            clock=lambda: 0.0,
            pause=pauses.append,
            held=lambda lane, messages: said.append((lane, messages)),
        )
        for _ in range(4)
    ]
    for task in tasks:
        task.wait("MAIN", 10)
    for _ in range(96):
        tasks[-1].wait("MAIN", 10)

    assert (counts.readings, said, pauses) == (1, [], [])


def test_a_pause_counts_what_was_sent_since_the_reading():
    """A log of "held, backlog 0" helps nobody."""
    counts, said = Counts(0, 0), []
    now = [0.0]
    made = LaneBacklog(
        sqs=counts,
        queue_urls={"MAIN": "url"},
        max_messages=10,
        clock=lambda: now[0],
        pause=lambda seconds: now.__setitem__(0, now[0] + seconds),
        held=lambda *found: said.append(found),
    )
    made.wait("MAIN", 10)
    made.wait("MAIN", 10)

    assert said == [("MAIN", 10)]
