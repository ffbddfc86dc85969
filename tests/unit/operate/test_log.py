"""Reading a log file, and following the function's log."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.errors import ConfigurationError
from lanes.operate.log import FAR, EventFilter, LogFiles, LogLine, Tail, read_event

EARLY, LATE = "2027-01-15 08:00:00,250+0000", "2027-01-15 08:00:02,000+0000"
AT = 1_800_000_000.0


@pytest.fixture
def file(tmp_path):
    """A file with two events, something between them, and a line that was cut."""
    path = tmp_path / "function.log"
    lines = [
        json.dumps({"event": "one", "timestamp": EARLY}),
        "RequestId: 5af6 Error: Task timed out after 30.00 seconds",
        json.dumps({"event": "two", "timestamp": LATE}),
        '{"event": "cut',
        '{"timestamp": 7}',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_lines_have_the_times_written_in_them_or_before_them(file):
    """What Lambda itself says has no time of its own there."""
    lines = list(LogFiles([file]).lines(since=0))

    assert [line.at - AT for line in lines] == [0.25, 0.25, 2.0, 2.0, 2.0]
    assert len({line.id for line in lines}) == 5


def test_lines_of_a_time_that_contain_a_text(file):
    """As of CloudWatch."""
    logs = LogFiles([file])

    assert [line.at - AT for line in logs.lines(since=AT + 1, containing=["event"])] == [2.0, 2.0]
    assert [line.at - AT for line in logs.lines(since=0, until=AT + 1, containing=["event"])] == [0.25]


def test_several_files_are_one_log(file):
    """A line of each has an id of its own."""
    other = file.with_name("other.log")
    other.write_bytes(file.read_bytes())

    lines = list(LogFiles([file, other]).lines(since=0, containing=["timed"]))

    assert len({line.id for line in lines}) == 2


def test_a_file_that_is_not_there_is_told(tmp_path):
    """By its name."""
    with pytest.raises(ConfigurationError, match=r"none\.log"):
        list(LogFiles([tmp_path / "none.log"]).lines(since=0))


START = 1_800_000_000.0
ME = {"message_id": "m", "id": "order-7", "kind": "order.placed", "group": "customer-3", "receive_count": 1}


class LateLogs:
    """Lines that can be seen some time after they were printed; the clock is the test's."""

    def __init__(self, lines=()):
        self.lines_with_arrival = list(lines)
        self.now = START
        self.asked_since = []

    def lines(self, *, since, until=None, containing=()):
        self.asked_since.append(since)
        return [line for line, arrives in self.lines_with_arrival if arrives <= self.now and line.at >= since]


def line(number, at):
    return LogLine(id=str(number), at=at, text=json.dumps({"event": "message_handled", "lane": "MAIN", **ME}))


def follow(logs, *, until, every=2.0):
    """Look again and again; return the ids of what was shown."""
    tail = Tail(logs, since=START, containing=["event"], clock=lambda: logs.now)
    shown = []
    while logs.now <= until:
        shown += [event.line.id for event in tail.read()]
        logs.now += every
    return shown, tail


@given(
    moments=st.lists(st.tuples(st.floats(0, 300), st.floats(0, 80)), max_size=60),
    every=st.floats(0.5, 9),
)
def test_each_event_is_shown_once_if_it_is_at_most_80_seconds_late(moments, every):
    """However they lie, and however often one looks."""
    logs = LateLogs(
        (line(number, START + at), START + at + late) for number, (at, late) in enumerate(moments)
    )

    shown, _ = follow(logs, until=START + 450, every=every)

    assert sorted(shown, key=int) == [str(number) for number in range(len(moments))]


def test_what_is_shown_together_is_in_the_order_of_time():
    """Streams come one after the other."""
    logs = LateLogs([(line(1, START + 3), START), (line(2, START + 1), START)])

    shown, _ = follow(logs, until=START)

    assert shown == ["2", "1"]


def test_nothing_before_the_beginning_is_shown():
    """A look that goes far back stops there."""
    logs = LateLogs([(line(1, START + 1), START + 1)])
    follow(logs, until=START + 200)

    assert min(logs.asked_since) == START


def test_what_was_shown_is_forgotten_when_it_can_not_come_again():
    """A tail of days keeps no list of days."""
    logs = LateLogs((line(number, START + number), START + number) for number in range(2_000))

    _, tail = follow(logs, until=START + 2_000)

    assert len(tail._shown) <= FAR + 2


def test_looks_go_back_a_little_only_mostly():
    """Each reads what is new, not the last two minutes."""
    logs = LateLogs((line(number, START + number), START + number) for number in range(300))
    follow(logs, until=START + 300)

    behind = [START + 2.0 * place - since for place, since in enumerate(logs.asked_since)]
    assert sum(1 for seconds in behind[60:] if seconds > 15) <= len(behind[60:]) / 10


def event(name="message_handled", *, lane="MAIN", **fields):
    text = json.dumps({"event": name, "lane": lane, **ME, **fields})
    return read_event(LogLine(id="1", at=1.0, text=text))


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        (EventFilter(), True),
        (EventFilter(lane="MAIN"), True),
        (EventFilter(lane="HIGH"), False),
        (EventFilter(kind="order.*"), True),
        (EventFilter(kind="payment.*"), False),
        (EventFilter(group="customer-3"), True),
        (EventFilter(group="customer"), False),
        (EventFilter(events=["handled"]), True),
        (EventFilter(events=["message_handled", "x"]), True),
        (EventFilter(events=["failed"]), False),
    ],
)
def test_a_filter_means_what_fulfils_all_of_it(wanted, meant):
    """Lane, kind, group, and the event by its name or its word."""
    assert (wanted.select(event()) is not None) == meant


def test_of_a_batch_the_messages_are_meant_that_fulfil_it():
    """The others of the batch are left out."""
    other = {**ME, "message_id": "n", "group": "customer-4"}
    text = json.dumps({"event": "batch_yielded", "lane": "MAIN", "messages": [ME, other]})
    batch = read_event(LogLine(id="1", at=1.0, text=text))

    assert len(EventFilter().select(batch)) == 2
    assert [tale.message_id for tale in EventFilter(group="customer-4").select(batch)] == ["n"]


def test_an_read_event_no_message_is_shown_unless_messages_are_asked_for():
    """An outage concerns all of them, and no single one."""
    text = json.dumps({"event": "higher_lanes_unknown", "lane": "MAIN", "level": "WARNING"})
    outage = read_event(LogLine(id="1", at=1.0, text=text))

    assert EventFilter(lane="MAIN").select(outage) == []
    assert EventFilter(kind="*").select(outage) is None


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (EventFilter(), ["event"]),
        (EventFilter(lane="MAIN"), ["MAIN"]),
        (EventFilter(kind="order.placed", lane="MAIN"), ["order.placed"]),
        (EventFilter(kind="order.*"), ["event"]),
        (EventFilter(group="g", kind="order.placed"), ["g"]),
        (EventFilter(events=["batch_yielded"]), ["batch_yielded"]),
        (EventFilter(events=["yielded"]), ["batch_yielded", "tenant_yielded"]),
        (EventFilter(events=["batch_yielded", "batch_woken"]), ["batch_yielded", "batch_woken"]),
        (EventFilter(events=["yielded", "of_a_later_release"]), ["event"]),
    ],
)
def test_cloudwatch_is_asked_for_less_where_that_is_safe(wanted, texts):
    """By a text that each line that is meant contains."""
    assert list(wanted.containing) == texts
