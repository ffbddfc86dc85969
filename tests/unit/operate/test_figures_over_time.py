"""A flood, a drain and a standstill, minute by minute in virtual time, in the words of `lanes status`."""

import io
import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from lanes.aws.cloudwatch import CloudWatchFigures
from lanes.cli.status import Reading, tables_of
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.depth import LaneDepth
from lanes.operate.figures import DepthTrend
from lanes.operate.log import LogLine
from lanes.operate.pause import LaneMapping
from lanes.operate.recent import RecentWorkReader
from lanes.operate.status import StatusReader

START = datetime(2026, 11, 26, 3, 0, tzinfo=UTC).timestamp()
MAPPING = LaneMapping(
    uuid="u", state="Enabled", function_arn="f", batch_size=10, maximum_concurrency=2, reports_failures=True
)


class MainLane:
    """One lane whose messages are sent, handled and dead-lettered as a test says; CloudWatch and the log follow."""

    def __init__(self):
        self.now = START
        self.waiting = self.dead = 0
        self.held = {}
        self.minutes = {}
        self.log = []

    def second(self, *, sent=0, handled=0, died=0):
        """Let a second pass."""
        self.waiting += sent - handled - died
        self.dead += died
        counts = self.minutes.setdefault(int(self.now // 60) * 60, Counter())
        counts.update(sent=sent, handled=handled, dead=died, deleted=handled + died)
        counts["visible"] = self.waiting
        times = {"sent_at": self.now - 3, "started_at": self.now}
        events = [
            ("message_handled", handled, times),
            ("message_dead_lettered", died, {"error": "OSError: no"}),
        ]
        for name, count, fields in events:
            text = json.dumps({"event": name, "lane": "MAIN", "kind": "order", "id": "m", **fields})
            self.log += [LogLine(id=str(len(self.log)), at=self.now, text=text)] * count
        self.now += 1

    def seconds(self, count, **events):
        """Let seconds pass."""
        for _ in range(count):
            self.second(**events)

    def paginate(self, *, MetricDataQueries, StartTime, EndTime, **_):  # noqa: N803 - boto3's names
        """Answer as GetMetricData does: no minute without data, the latest first."""
        metrics = {
            "NumberOfMessagesSent": "sent", "NumberOfMessagesDeleted": "deleted", "HandledMessages": "handled",
            "DeadLetteredMessages": "dead", "ApproximateNumberOfMessagesVisible": "visible",
        }  # fmt: skip
        results = []
        for query in MetricDataQueries:
            metric = query["MetricStat"]["Metric"]
            name = metrics.get(metric["MetricName"], "")
            is_main = any("MAIN" in one["Value"] for one in metric["Dimensions"])
            of_queue = metric["Namespace"] == "AWS/SQS"
            found = [
                (datetime.fromtimestamp(at, UTC), counts[name])
                for at, counts in sorted(self.minutes.items(), reverse=True)
                if is_main and StartTime.timestamp() <= at < EndTime.timestamp() and name
                if counts[name] or of_queue
            ]
            results.append(
                {"Id": query["Id"], "Timestamps": [at for at, _ in found], "Values": [v for _, v in found]}
            )
        return [{"MetricDataResults": results}]

    def get_paginator(self, _name):
        return self

    def lines(self, *, since, until=None, containing=()):
        return [line for line in self.log if line.at >= since and any(one in line.text for one in containing)]

    def depth(self, lane):
        return LaneDepth(backlog=self.waiting if lane == "MAIN" else 0, in_flight=0)

    def dead_letters(self, lane):
        return LaneDepth(backlog=self.dead if lane == "MAIN" else 0, in_flight=0)

    def parked(self, _lane):
        return 0

    def of_lane(self, _lane):
        return [MAPPING]


@pytest.fixture
def lane():
    """A lane, before its first message."""
    return MainLane()


def status_reader(lane):
    """Return a reader of a process of its own."""
    config = LanesConfig()
    queue = "https://sqs.eu-central-1.amazonaws.com/123456789012/{}.fifo"
    pairs = {
        one.name: LaneQueues(url=queue.format(one.name), dead_letter_url=queue.format(f"{one.name}-dead"))
        for one in config.lanes
    }
    deployment = Deployment(config=config, queues=pairs, table="t")
    figures = CloudWatchFigures(
        deployment=deployment,
        client=lane,
        service=lambda: "s",
        now=lambda: datetime.fromtimestamp(lane.now, UTC),
    )
    return StatusReader(
        config=config, depths=lane, mappings=lane, figures=figures.read, trend=DepthTrend(lambda: lane.now)
    )


def words(lane, reader=None):
    """Return each row of MAIN, and the headings, as an operator reads them."""
    work = RecentWorkReader(
        lane, presence=list, function_timeout=timedelta(seconds=30), clock=lambda: lane.now
    ).read()
    status = (reader or status_reader(lane)).read(work)
    out = Console(file=io.StringIO(), width=160)
    out.print(tables_of(Reading(status=status, work=work, notes=[]), out))
    lines = out.file.getvalue().splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    return [row[1:] for row in cells if row and row[0] == "MAIN"], [
        line.strip() for line in lines if "│" not in line
    ]


def test_before_the_first_minute_is_over_nothing_is_guessed(lane):
    """A single look has no trend, and CloudWatch no minute."""
    lane.seconds(40, sent=50, died=2)

    (counts, rates, failures), headings = words(lane)

    assert counts == ["1920", "0", "0", "0", "not yet", "Enabled", "80"]
    assert rates == ["not yet"] * 6
    assert failures[:3] == ["order", "0", "80"]
    assert "rates per minute from CloudWatch: it has none yet" in headings


def test_what_is_wrong_comes_first_in_words(lane):
    """Above all tables, with the section of the runbook: what the log shows before what the counts show."""
    lane.seconds(40, sent=1, died=1)
    away = {"event": "resource_away", "lane": "MAIN", "resource": "bank", "reason": "OSError: refused"}
    text = json.dumps(away | {"since": START, "tries": 7, "next_at": START + 45})
    lane.log.append(LogLine(id="away", at=START + 30, text=text))

    _, lines = words(lane)

    assert lines[:2] == [
        (
            "bank away since 03:00:00Z, 7 tries, next 03:00:45Z; last 03:00:30Z (OSError: refused) "
            "[runbook: resource-away]"
        ),
        "MAIN has 40 dead letters [runbook: dead-letters]",
    ]


def test_a_flood_grows_by_its_depth_and_shows_what_dies(lane):
    """No message is handled, and 120 a minute die."""
    lane.seconds(300, sent=10, died=2)

    (counts, rates, _), headings = words(lane)

    assert counts[4].startswith("growing +")
    assert "steady" not in counts[4]
    assert rates[1:4] == ["0.0", "120.0", "600.0"]
    assert any(
        "per minute in the 4 min until 03:04:00Z, 60 s ago, from CloudWatch" in line for line in headings
    )


def test_what_was_handled_since_the_last_whole_minute_is_not_zero(lane):
    """CloudWatch shows three quiet minutes; the log has had a thousand messages since."""
    lane.seconds(180)
    lane.second(sent=1000)
    lane.seconds(10, handled=100)
    lane.seconds(45)

    (counts, rates, waits, _), headings = words(lane)

    assert counts[4] == "empty"
    assert rates[1:3] == ["not yet", "0.0"]
    assert waits == ["all", "1000", "3 s", "3 s"]
    assert any("in the last 5 min, from the log" in line for line in headings)


def test_a_drain_falls_although_the_flood_is_still_in_the_rates(lane):
    """Rates of five minutes say 600 a minute sent; the depth says how it goes."""
    lane.seconds(180, sent=20)
    lane.seconds(240, handled=5)

    (counts, rates, *_), _ = words(lane)

    assert counts[4].startswith("falling -")
    assert ", empty in " in counts[4]
    assert float(rates[3]) > float(rates[1])
    lane.seconds(420)
    assert words(lane)[0][1][3] == "0.0"


def test_a_standstill_is_steady_and_old(lane):
    """Nothing is sent and nothing is handled: seven minutes after the last send no lane grows."""
    lane.seconds(120, sent=30)
    lane.seconds(420)

    (counts, rates), headings = words(lane)

    assert counts[0] == "3600"
    assert counts[4].startswith("steady in ")
    assert rates[1:4] == ["0.0", "0.0", "0.0"]
    assert not any("handled, and their waits" in line for line in headings)


def test_a_watched_lane_is_judged_by_its_own_counts(lane):
    """From ten seconds on, before CloudWatch has seen any of it."""
    reader = status_reader(lane)
    lane.second(sent=1000)
    assert words(lane, reader)[0][0][4] == "not yet"

    lane.seconds(20, handled=10)

    assert words(lane, reader)[0][0][4] == "falling -600/min in 20 s, empty in 80 s"


def test_too_many_failures_for_one_reading_shorten_its_span(lane):
    """The heading says so; a part of an hour must not look like the hour."""
    lane.seconds(600, sent=10, died=10)
    lane.seconds(120, sent=60, died=60)

    rows, headings = words(lane)

    assert rows[2][2] == "9000"
    assert "failures of the last 5 min, from the log" in headings
