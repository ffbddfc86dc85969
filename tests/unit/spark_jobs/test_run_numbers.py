"""The numbers of a run are what the lanes hold, whatever fails and however often the run is started."""

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from lanes.producer.outgoing import ACCEPTED, CallEnded
from spark_jobs.manifest.run import RunManifest
from spark_jobs.manifest.storage import LocalStorage
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader, RowRefusedError
from spark_jobs.sending import RowCounts, RowsUnsentError, SendingTask

DEPLOYMENT = Deployment(
    config=LanesConfig.from_dict({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]}),
    queues={name: LaneQueues(url=name, dead_letter_url=f"{name}-dead") for name in ("HIGH", "MAIN")},
    table="ledger",
)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)
ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["stock.loaded", "airport.opened"]),
        "data": st.sampled_from(["1", "2", "1.0", "NaN"]),
        "group": st.none() | st.sampled_from(["g", "h"]),
        "priority": st.sampled_from([None, 60]),
    },
    optional={"id": st.sampled_from(["IBM", "LAX", "a#b"])},
)


class Queues:
    """Lanes that drop what they have, by group and deduplication id as SQS does, and fail for good after a while."""

    def __init__(self):
        self.held = {}
        self.calls_left = 0
        self._number = 0
        self._flying = []

    def start(self, queue_url, entries):
        """Answer a call at once."""
        self._number += 1
        self.calls_left -= 1
        if self.calls_left < 0:
            self._flying.append(CallEnded(number=self._number, error=DENIED))
            return self._number
        for entry in entries:
            key = (queue_url, entry.message_group_id, entry.message_deduplication_id)
            self.held.setdefault(key, entry.identity)
        self._flying.append(CallEnded(number=self._number, answers=[ACCEPTED] * len(entries)))
        return self._number

    def ended(self, _timeout):
        """Give the answers."""
        ended, self._flying = self._flying, []
        return ended


def once(rows):
    """Give the rows with one for each message, as the job sends them, in a fixed order."""
    reader = RowReader(kind=None, priority=-100)
    found = {}
    for row in rows:
        try:
            found.setdefault(reader.item(row, 1).identity, row)
        except ValueError:
            found[f"refused {len(found)}"] = row
    return list(found.values())


def session(storage, number, queues, partitions, tries):
    """
    Start a run once more, with several tries at each partition.

    Args:
        storage: The folder of the manifests.
        number: Number of the session.
        queues: The lanes.
        partitions: The rows.
        tries: Calls that succeed in each try.

    Returns:
        The run, and the sum of the counts of each last try; None if one has failed.
    """
    now = datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=number)
    run = RunManifest.open(storage, run_id="air", now=now)
    total, has_failed = RowCounts(), False
    for partition, rows in enumerate(partitions):
        for attempt, calls in enumerate(tries):
            queues.calls_left = calls
            one = SendingTask(
                partition=partition,
                reader=RowReader(kind=None, priority=-100),
                deployment=DEPLOYMENT,
                calls=queues,
                pace=SendPace(clock=lambda: 0.0, wait=lambda _: None),
                record=run.task(partition=partition, attempt=10 * number + attempt, first=attempt == 0),
                quarantine=True,
            )
            try:
                total += one.send([rows])
                break
            except (RowRefusedError, RowsUnsentError):
                continue
        else:
            has_failed = True
    return run, None if has_failed else total


@given(
    rows=st.lists(ROW, max_size=30),
    sessions=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_the_numbers_of_a_run_are_what_the_lanes_hold(tmp_path_factory, rows, sessions, seed):
    """
    Two kinds with one id are two messages; a rerun in other partitions sends what is missing, and no more.

    What a try sent before it failed is sent by its session, also if the session fails.
    """
    storage, queues, chance = LocalStorage(tmp_path_factory.mktemp("runs")), Queues(), random.Random(seed)
    rows = once(rows)
    refused = sum(row["data"] == "NaN" for row in rows)
    recorded = 0

    for number, tries in enumerate([*sessions, [1_000], [1_000]]):
        spread = [chance.randrange(2) for _ in rows]
        parts = [[row for row, place in zip(rows, spread, strict=True) if place == part] for part in range(2)]
        run, counts = session(storage, number, queues, parts, tries)
        before, recorded = recorded, len(set(queues.held.values()))
        of_session = run.of_session()
        assert of_session["messages"] == recorded - before
        assert of_session["skipped"] <= before
        assert of_session["quarantined"] <= refused
        if counts is not None:
            assert counts.lanes.total() == recorded - before
            assert (counts.skipped, counts.quarantined) == (before, refused)
            assert of_session == {"messages": recorded - before, "skipped": before, "quarantined": refused}
            run.finish({})
            assert run.counts() == (recorded, refused)

    assert counts.lanes.total() == 0
    assert len(queues.held) == recorded == len(rows) - refused


def test_a_failure_does_fail():
    """The search above has sessions that end early."""
    queues = Queues()
    queues.start("MAIN", [])
    assert queues.ended(None)[0].error is DENIED
