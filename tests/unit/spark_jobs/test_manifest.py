"""The manifest: files of tasks, sessions one at a time, reads of other tasks and later sessions, and storage."""

import json
import sqlite3
from datetime import UTC, datetime
from math import nan

import pytest

from lanes.aws.bulk import counts_of
from spark_jobs.manifest.run import Claim, RunInUseError, RunManifest
from spark_jobs.manifest.storage import S3Storage, open_storage
from spark_jobs.manifest.task import FLUSH_SECONDS, REFRESH_SECONDS, SEGMENT_ROWS, SentBefore, TaskManifest
from spark_jobs.rows import OutgoingRow

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 18, tzinfo=UTC)


@pytest.fixture
def storage(tmp_path):
    """Give a local folder."""
    return open_storage(str(tmp_path / "runs"), endpoint_url=None, region=None)


def items(*ids):
    """Make rows that were sent."""
    return [OutgoingRow({}, 1, one, 0, "{}", "g", one, 2) for one in ids]


def session(storage, now=NOON):
    """Begin a session of the run."""
    return RunManifest.open(storage, run_id="spring", now=now)


def send(run, *ids, partition=0, attempt=1, first=True):
    """Send as a task that ends well."""
    task = run.task(partition=partition, attempt=attempt, first=first)
    task.sent("MAIN", items(*ids))
    task.flush()


def known(task, *ids):
    """Give those that a task knows as sent."""
    return [one for one in ids if task.has(one) or task.has_now(one)]


def test_a_task_of_the_first_session_reads_nothing_of_other_partitions(storage):
    """So the first run of a job costs no lookups, however many tasks it has."""
    run = session(storage)
    send(run, "a", partition=0)

    assert known(run.task(partition=1, attempt=2, first=True), "a") == []


@pytest.mark.parametrize("first", [True, False])
def test_an_attempt_knows_what_others_at_its_partition_sent(storage, first):
    """A stage that runs again counts attempts from the start."""
    run = session(storage)
    send(run, "a", partition=3, attempt=1)

    assert known(run.task(partition=3, attempt=2, first=first), "a", "b") == ["a"]


def test_a_second_attempt_knows_what_all_partitions_sent(storage):
    """Rows may have moved between partitions when a stage is computed again."""
    run = session(storage)
    send(run, "a", partition=3)

    assert known(run.task(partition=4, attempt=2, first=False), "a") == ["a"]


def test_a_speculative_copy_is_noticed_within_a_minute(storage):
    """The original does not send ids again that its copy has recorded."""
    run, now = session(storage), [0.0]
    original = TaskManifest(
        storage,
        run_id="spring",
        session=run.session,
        partition=0,
        attempt=1,
        before=SentBefore(),
        now=SentBefore(),
        clock=lambda: now[0],
    )
    send(run, "ahead", partition=0, attempt=2, first=False)

    assert known(original, "ahead") == []
    now[0] = REFRESH_SECONDS
    original.sent("MAIN", items("mine"))
    assert known(original, "ahead", "mine") == ["ahead"]


def test_notes_are_written_by_number_and_by_time(storage):
    """Long before SQS forgets, so that a crash repeats only what SQS drops."""
    run, now = session(storage), [0.0]
    task = TaskManifest(
        storage,
        run_id="spring",
        session=run.session,
        partition=0,
        attempt=1,
        before=SentBefore(),
        now=SentBefore(),
        clock=lambda: now[0],
    )
    task.sent("MAIN", items(*(str(number) for number in range(SEGMENT_ROWS))))
    written = [run.counts().sent]
    task.sent("MAIN", items("x"))
    written.append(run.counts().sent)
    now[0] = FLUSH_SECONDS
    task.sent("MAIN", items("y"))
    written.append(run.counts().sent)

    assert written == [SEGMENT_ROWS, SEGMENT_ROWS, SEGMENT_ROWS + 2]


def test_a_file_counts_its_messages_by_lane(storage, tmp_path):
    """Also where several calls of a lane are in one file; the next file counts anew."""
    task = session(storage).task(partition=0, attempt=1, first=True)
    for lane, ids in (("MAIN", "ab"), ("HIGH", "c"), ("MAIN", "def")):
        task.sent(lane, items(*ids))
    task.flush()
    task.sent("MAIN", items("g"))
    task.flush()

    files = [json.loads(file.read_text()) for file in sorted((tmp_path / "runs/spring/sent").rglob("*.json"))]
    assert [one["lanes"] for one in files] == [{"MAIN": 5, "HIGH": 1}, {"MAIN": 1}]
    assert [one["ids"] for one in files] == [list("abcdef"), ["g"]]


def test_rows_put_aside_are_lines_with_their_reason(storage, tmp_path):
    """Dates, bytes and numbers that JSON lacks are written in words."""
    run = session(storage)
    task = run.task(partition=0, attempt=1, first=True)
    task.quarantined(position=4, row={"id": "x", "on": NOON, "raw": b"\x00", "n": [nan]}, reason="too bad")
    task.flush()

    (file,) = (tmp_path / "runs" / "spring" / "quarantine").rglob("*.jsonl")
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == {
        "position": 4,
        "reason": "too bad",
        "row": {"id": "x", "on": "2026-01-02T12:00:00+00:00", "raw": "b'\\x00'", "n": ["nan"]},
    }
    assert run.counts() == (0, 1)


def test_counts_are_in_the_names():
    """A listing is enough to see how far a run is; rows count as set aside by the last session, once."""
    names = [
        "spring/begun/0001.json",
        "spring/sent/20260102T120000Z/p00003-a17-0001-5000.json",
        "spring/quarantine/20260102T120000Z/p00003-a17-0002-3.jsonl",
        "spring/sessions/20260102T120000Z.json",
    ]
    assert counts_of(names) == (5000, 3)

    # An attempt that was killed, and the next one at its partition.
    names.append("spring/quarantine/20260103T120000Z/p00001-a4-0001-3.jsonl")
    names.append("spring/quarantine/20260103T120000Z/p00001-a9-0001-2.jsonl")
    names.append("spring/quarantine/20260103T120000Z/p00001-a9-0002-1.jsonl")
    assert counts_of(names) == (5000, 3)

    # The rows were mended.
    names.append("spring/sessions/20260104T120000Z.json")
    assert counts_of(names) == (5000, 0)


def test_parts_of_a_run_count_each_for_itself():
    """The last session of a batch of a stream is not that of another."""
    names = [
        "r/streams/q/batch-0/quarantine/20260102T120000Z/p00000-a1-0001-3.jsonl",
        "r/streams/q/batch-1/sent/20260103T120000Z/p00000-a1-0001-7.json",
        "r/parts/0001/sent/20260103T120000Z/p00000-a1-0001-2.json",
        "r/streams/20260103T120000Z.json",
    ]
    assert counts_of(names) == (9, 3)


def test_half_written_files_are_not_seen(storage, tmp_path):
    """A killed task may leave a file under a name that begins with a dot."""
    storage.write("run/sent/s/p00000-a1-0001-1.json", b"{}")
    (tmp_path / "runs/run/sent/s/.p00000-a1-0002-1.json.1234").write_bytes(b"{")

    assert list(storage.names("run/sent/")) == ["run/sent/s/p00000-a1-0001-1.json"]
    assert list(storage.names("run/se")) == ["run/sent/s/p00000-a1-0001-1.json"]
    assert list(storage.names("run/sent/s/p00001")) == []
    assert list(storage.names("other/")) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "a local folder"),
        ("hdfs://a/b", "a local folder"),
        ("s3:///b", "the name of a bucket"),
        ("s3://b/runs#1", "without"),
        ("file:///runs?day=1", "without"),
    ],
)
def test_other_places_are_refused(path, reason):
    """The error names the allowed forms."""
    with pytest.raises(ValueError, match=reason):
        open_storage(path, endpoint_url=None, region=None)


def test_addresses_of_files_and_of_s3_are_known(tmp_path):
    """As Spark writes them."""
    local = open_storage(f"file://{tmp_path}/a%20folder", endpoint_url=None, region=None)
    local.write("name", b"text")

    assert (tmp_path / "a folder" / "name").read_bytes() == b"text"
    assert isinstance(open_storage("s3a://bucket/x", endpoint_url=None, region=None), S3Storage)


def test_any_number_of_ids_is_looked_up():
    """Nothing is stored for an empty set; ids may be any text."""
    before = SentBefore()
    before.add_all([])
    assert not before.has("a")

    before.add_all([["a", "\ud800"], (str(number) for number in range(50_000))])
    before.add_all([["a", "b"]])

    assert all(before.has(one) for one in ("a", "b", "\ud800", "0", "49999"))
    assert not before.has("50000")


def test_the_table_of_ids_is_closed_with_its_object():
    """Python 3.13 warns of databases that are left to the garbage collector."""
    before = SentBefore()
    before.add_all([["a"]])
    table = before._table

    del before

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        table.execute("SELECT 1")


def take(storage, session, *, take_over=False):
    """Begin a session of the run."""
    return Claim.take(storage, run_id="spring", session=session, now=NOON, take_over=take_over)


def test_of_two_sessions_that_begin_at_once_one_is_refused(storage, monkeypatch):
    """Both have found no other: the file of the number decides."""
    create = storage.create

    def after_another(name, content):
        monkeypatch.setattr(storage, "create", create)
        take(storage, "first")
        return create(name, content)

    monkeypatch.setattr(storage, "create", after_another)

    with pytest.raises(RunInUseError, match="2026-01-02T12:00:00Z") as refused:
        take(storage, "second")

    assert refused.value.session == "first"


def test_of_two_that_take_over_at_once_one_is_refused(storage, monkeypatch):
    """Only one session sends the rest of a crashed one."""
    take(storage, "crashed")
    create = storage.create

    def after_another(name, content):
        monkeypatch.setattr(storage, "create", create)
        take(storage, "first", take_over=True)
        return create(name, content)

    monkeypatch.setattr(storage, "create", after_another)

    with pytest.raises(RunInUseError):
        take(storage, "second", take_over=True)


def test_an_answer_that_was_lost_is_no_other_session(storage, monkeypatch):
    """The client repeats the request and finds its own file."""
    create = storage.create

    def twice(name, content):
        create(name, content)
        return create(name, content)

    monkeypatch.setattr(storage, "create", twice)

    assert take(storage, "one").number == 1


def test_a_file_is_created_once(storage, tmp_path):
    """The first content stays, and no other file is left."""
    assert storage.create("a/b.json", b"1")
    assert not storage.create("a/b.json", b"2")

    assert [path.read_bytes() for path in (tmp_path / "runs/a").iterdir()] == [b"1"]
