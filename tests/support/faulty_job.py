"""
A bulk job in virtual time between a table and faulty SQS: its tasks are killed and tried again, and it is run again.

The tasks, the lean calls with their connections and the manifest are the real ones; all chance comes from one seed.
"""

from __future__ import annotations

import json
import socket
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from random import Random
from select import select
from types import SimpleNamespace

import boto3

from lanes.aws.batch_calls import LeanCalls
from lanes.aws.bell import SenderBell
from lanes.aws.clients import READ_TIMEOUT_SECONDS, place_of
from lanes.aws.wire import Connection, Endpoint
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.message import id_in
from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import FifoSettings
from lanes.testing.fifo.queue import FifoQueue
from spark_jobs.manifest.run import RunManifest
from spark_jobs.manifest.task import read_ids
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader
from spark_jobs.sending import RowsUnsentError, SendingTask

LANES = ("HIGH", "MAIN")
CONFIG = LanesConfig.from_dict({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]})
DEPLOYMENT = Deployment(
    config=CONFIG,
    queues={
        name: LaneQueues(
            url=f"https://sqs.eu-central-1.amazonaws.com/1/{name}", dead_letter_url=f"https://x/{name}"
        )
        for name in LANES
    },
    table="ledger",
)
CREDENTIALS = SimpleNamespace(access_key="test", secret_key="test", token=None)
POISON = "poison"
REFUSED = "InvalidMessageContents"
CONCURRENCY = 3
ATTEMPTS = 4
SESSIONS = 40
FAULTS = (
    "lost",
    "unanswered",
    "cut",
    "throttled",
    "unavailable",
    "partial",
    "left out",
    "foreign",
    "twice",
    "slow",
)


class Killed(BaseException):
    """The worker was killed: no code of it runs from here on."""


class Fuse:
    """Kills a worker after a number of its steps; without a number never."""

    def __init__(self, steps=None):
        self._left = steps

    def step(self):
        """Count a step; a dead worker takes no further one."""
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise Killed


class Storage:
    """Files of the manifest in memory; a worker may be killed before or after each write."""

    def __init__(self):
        self.files = {}
        self.fuse = Fuse()

    def write(self, name, content):
        """Write a file."""
        self.fuse.step()
        self.files[name] = content
        self.fuse.step()

    def read(self, name):
        """Return the content of a file."""
        return self.files[name]

    def names(self, prefix):
        """Return the names of all files with a prefix."""
        return iter(sorted(name for name in self.files if name.startswith(prefix)))


class FaultySqs:
    """
    SQS behind socket pairs; it works when a task waits for answers.

    Args:
        chance: decides about faults.
        clock: the time.
        rate: share of the requests with a fault.
    """

    def __init__(self, chance, clock, *, rate):
        settings = FifoSettings(deduplicate_by_group=True, retention=timedelta(days=14))
        self.queues = {name: FifoQueue(clock, name=name, settings=settings) for name in LANES}
        self.faults = Counter()
        self._chance, self._clock, self._rate = chance, clock, rate
        self._ends, self._held, self._late = [], [], []
        self._last = _http(200, {"Successful": [], "Failed": []})

    def connect(self):
        """Return the client's end of a new connection."""
        client, server = socket.socketpair()
        server.setblocking(False)
        self._ends.append(server)
        return client

    def serve(self):
        """Answer all requests that are there, in any order."""
        for request in self._take(self._late, lambda _: self._chance.random() < 0.2):
            self._accept(request)
        for _, end, content in self._take(self._held, lambda held: held[0] <= self._clock()):
            self._send(end, content)
        for end in self._chance.sample(self._ends, len(self._ends)):
            request = self._request(end)
            if request is not None:
                self._handle(end, request)

    def next_at(self):
        """Return when the next answer that is held back is due, or None."""
        return min((due for due, _, _ in self._held), default=None)

    def hang_up(self):
        """Lose all connections; a request in progress is lost, accepted now or accepted later."""
        for end in list(self._ends):
            request = self._request(end)
            if request is not None and self._chance.random() < 0.7:
                self._late.append(request)
            self._close(end)
        self._held.clear()

    def close(self):
        """Close all connections."""
        for end in list(self._ends):
            self._close(end)

    @staticmethod
    def _take(items, wanted):
        taken = [item for item in items if wanted(item)]
        items[:] = [item for item in items if item not in taken]
        return taken

    def _request(self, end):
        try:
            content = end.recv(1 << 20)
        except BlockingIOError:
            return None
        if not content:
            self._close(end)
            return None
        return json.loads(content.partition(b"\r\n\r\n")[2])

    def _handle(self, end, request):
        fault = self._chance.choice(FAULTS) if self._chance.random() < self._rate else ""
        self.faults[fault] += 1
        content = self._answer(fault, request)
        if fault == "slow":
            seconds = self._chance.choice((0.5, 5.0, 2 * READ_TIMEOUT_SECONDS))
            self._held.append((self._clock() + seconds, end, content))
            return
        self._send(end, content)
        if fault in {"lost", "unanswered", "cut"}:
            self._close(end)

    def _answer(self, fault, request):
        if fault == "lost":
            return b""
        if fault == "throttled":
            return _http(400, {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slower"})
        if fault == "unavailable":
            return _http(503, {"__type": "com.amazonaws.sqs#ServiceUnavailable", "message": "later"})
        if fault == "foreign":
            return self._last
        answer = self._accept(request, share=0.5 if fault == "partial" else 1.0)
        if fault == "left out":
            answer["Successful"] = answer["Successful"][1:]
        content = self._last = _http(200, answer)
        return {"unanswered": b"", "cut": content[: len(content) // 2], "twice": content * 2}.get(
            fault, content
        )

    def _accept(self, request, *, share=1.0):
        queue = self.queues[request["QueueUrl"].rpartition("/")[2]]
        successful, failed = [], []
        for entry in request["Entries"]:
            if POISON in entry["MessageBody"]:
                failed.append({"Id": entry["Id"], "Code": REFUSED, "SenderFault": True})
            elif self._chance.random() >= share:
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
            else:
                queue.send(
                    entry["MessageBody"],
                    group=entry["MessageGroupId"],
                    deduplication_id=entry["MessageDeduplicationId"],
                )
                successful.append({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "5"})
        return {"Successful": successful, "Failed": failed}

    def _send(self, end, content):
        try:
            end.sendall(content)
        except OSError:
            self._close(end)

    def _close(self, end):
        if end in self._ends:
            self._ends.remove(end)
        end.close()


def _http(status, content):
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


@cache
def client_and_endpoint():
    """Return a client of boto3 and where its requests go."""
    client = boto3.client(
        "sqs", region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    return client, Endpoint(place_of(client), lambda: CREDENTIALS, client.meta.config)


class VirtualCalls(LeanCalls):
    """Lean calls that wait in virtual time."""

    def __init__(self, sqs, clock, fuse):
        client, endpoint = client_and_endpoint()
        super().__init__(endpoint, client=client, bell=SenderBell(), clock=clock)
        self._sqs, self._time, self._fuse = sqs, clock, fuse

    def start(self, queue_url, entries):
        """Start a call."""
        self._fuse.step()
        return super().start(queue_url, entries)

    def ended(self, timeout):
        """Return the calls that ended; if there is none yet, let time pass until something happens."""
        self._fuse.step()
        if not self._failed:
            self._sqs.serve()
            if not select([one.socket for one in self._busy.values()], [], [], 0)[0]:
                self._pass_time(timeout)
        return super().ended(0)

    def _pass_time(self, timeout):
        oldest = next(iter(self._busy.values()))
        moments = [
            oldest.used_at + READ_TIMEOUT_SECONDS,
            self._sqs.next_at(),
            None if timeout is None else self._time.now + timeout,
        ]
        self._time.now = max(self._time.now, min(at for at in moments if at is not None))
        self._sqs.serve()


class FaultyJob:
    """
    One job over a table, until it has ended well.

    Args:
        seed: of all chance.
        rows: number of rows of the table.
        unrecorded: largest number of rows that an attempt may have in a queue and not in its manifest when it ends.
    """

    def __init__(self, seed, *, rows, unrecorded):
        self.chance = Random(seed)
        self.clock = FakeClock()
        self.storage = Storage()
        self.sqs = FaultySqs(self.chance, self.clock, rate=self.chance.choice((0.02, 0.1, 0.3)))
        self.kills = 0
        self._unrecorded = unrecorded
        self._kills_left = self.chance.randint(1, 8)
        self._numbers = iter(range(1, 10**6))
        self.partitions = self._table(rows)

    def _table(self, rows):
        """Rows of a group are in one partition and one lane, as the order of a group needs it."""
        partitions = [[] for _ in range(3)]
        share = self.chance.choice((0.02, 0.3))
        for number in range(rows):
            group = self.chance.randrange(12)
            data = {"n": number, "text": POISON if self.chance.random() < share else "good"}
            priority = 60 if group % 4 == 0 else -100
            partitions[group % 3].append(
                {"id": f"row-{number}", "group": f"g{group}", "priority": priority, "data": json.dumps(data)}
            )
        return partitions

    def run(self):
        """Run the job, again and again, until it ends well."""
        for _ in range(SESSIONS):
            run = RunManifest.open(
                self.storage,
                run_id="r",
                now=datetime.fromtimestamp(self.clock.now, UTC),
                clock=self.clock,
            )
            if all(self._partition(run, number) for number in range(len(self.partitions))):
                return
            self.clock.advance(self.chance.choice((1.0, 60.0, 400.0)))
        raise AssertionError("the job never ended well")

    def recorded(self, run_id="r"):
        """Return the ids in the manifest."""
        names = list(self.storage.names(f"{run_id}/sent/"))
        return [id_in(one) for ids in read_ids(self.storage, names) for one in ids]

    def queued(self, lane):
        """Return (group, id) of all messages of a lane in the order of their arrival."""
        return [(one["group"], one["id"]) for one in map(self._row_of, self.sqs.queues[lane].bodies())]

    def quarantined(self):
        """Return the ids of the rows that were set aside."""
        lines = [
            line
            for name in self.storage.names("r/quarantine/")
            for line in self.storage.files[name].decode().splitlines()
        ]
        return {json.loads(line)["row"]["id"] for line in lines}

    def _row_of(self, body):
        return self._rows[json.loads(body)["id"]]

    @property
    def _rows(self):
        return {row["id"]: row for partition in self.partitions for row in partition}

    def _partition(self, run, number):
        """Try a partition as often as Spark does; return whether it ended well."""
        for attempt in range(ATTEMPTS):
            before = set(self.recorded())
            queued = self._queued_ids()
            fuse = self.storage.fuse = self._fuse()
            calls = VirtualCalls(self.sqs, self.clock, fuse)
            try:
                counts = self._task(run, number, attempt, calls).send(self._chunks(number))
            except (Killed, RowsUnsentError) as error:
                if REFUSED in str(error):
                    raise AssertionError("a refused row failed its task") from error
                self.kills += isinstance(error, Killed)
            else:
                assert counts.lanes.total() + counts.skipped + counts.quarantined == len(
                    self.partitions[number]
                )
                return True
            finally:
                self.storage.fuse = Fuse()
                self.sqs.hang_up()
                calls.close()
            self._check_attempt(before, queued)
        return False

    def _check_attempt(self, before, queued):
        new = self._queued_ids() - queued
        assert not {one for one, count in new.items() if one in before and count}, (
            "a recorded row was sent again"
        )
        unrecorded = new.keys() - set(self.recorded())
        assert len(unrecorded) <= self._unrecorded, f"{len(unrecorded)} rows are not recorded"

    def _queued_ids(self):
        return Counter(one for lane in LANES for _, one in self.queued(lane))

    def _fuse(self):
        if self._kills_left and self.chance.random() < 0.6:
            self._kills_left -= 1
            return Fuse(self.chance.randint(1, 120))
        return Fuse()

    def _task(self, run, number, attempt, calls):
        return SendingTask(
            partition=number,
            reader=RowReader(kind="a.kind", priority=-100),
            deployment=DEPLOYMENT,
            calls=calls,
            pace=SendPace(clock=self.clock, wait=self.clock.advance),
            record=run.task(partition=number, attempt=next(self._numbers), first=attempt == 0),
            concurrency=CONCURRENCY,
            jitter=self.chance.random,
            quarantine=True,
        )

    def _chunks(self, number):
        rows = iter(self.partitions[number])
        while chunk := list(islice(rows, self.chance.randint(1, 60))):
            yield chunk
            self.clock.advance(self.chance.choice((0.0, 0.0, 1.0)))


def connect_to(job, monkeypatch):
    """Lead new connections to the faulty SQS of a job."""
    monkeypatch.setattr(Endpoint, "connect", lambda _self: Connection(job.sqs.connect()))
