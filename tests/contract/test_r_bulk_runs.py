"""R1 to R7 of a bulk write: the rows of one task, followed to the end of their messages; without Spark."""

from __future__ import annotations

import json
import re
import sys

import pytest

from lanes.errors import AwsError, ConfigurationError, LanesError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Override
from lanes.producer.outgoing import CallEnded
from lanes.producer.sending import ThreadedCalls
from lanes.runs import Counts, State
from lanes.testing.calls import ProcessKilled
from spark_jobs import following, sending
from spark_jobs.partitions import WriteFailedError, report
from spark_jobs.plan import WritePlan
from tests.support.followed import FAULTS, KIND, NAME, OVER, Followed

BAD = {"id": 1.5}
FOLLOWED = {"follow": "true", "onComplete": OVER}


class Calls(ThreadedCalls):
    """Batch calls in the thread of their task, which dies with them."""

    def __init__(self, sqs):
        super().__init__(sqs, concurrency=1)
        self._done, self._ready = [], []

    def start(self, queue_url, entries):
        """Make a call."""
        try:
            ended = {"answers": self._call(queue_url, entries)}
        except AwsError as error:
            ended = {"error": error}
        self._done.append(CallEnded(number=len(self._done), **ended))
        self._ready.append(self._done[-1])
        return self._done[-1].number

    def ended(self, timeout):
        """Give the calls that ended."""
        ready, self._ready = self._ready, []
        return ready


class Bulk(Followed):
    """A followed run whose sender is the plan of the writer, with one task."""

    def __init__(self, engine, folder, monkeypatch):
        super().__init__(engine)
        self.folder = folder
        self.pauses = []
        self._options = {"deployment": self.world.deployment.to_json(), "kind": KIND, "source": "shop"}
        monkeypatch.setattr(sending, "_kept", [])
        monkeypatch.setattr(sending, "open_calls", lambda *_, **__: Calls(self.world.sender))
        monkeypatch.setattr(following, "runs_of", lambda *_: self.world.runs)
        monkeypatch.setattr(following, "sender_of", lambda *_: self.world.producer(source="shop"))
        monkeypatch.setattr(following, "sleep", self.pauses.append)

    def job(self, rows, follow=FOLLOWED, expected=None, **more):
        """Send the rows under the name of the run and give the exit code; a process that dies gives None."""
        run = {"runId": NAME, "manifestPath": str(self.folder / "runs")}
        plan = None
        try:
            plan = WritePlan.make(
                self._options | run | follow | more, None, count=lambda: expected or len(rows)
            )
            done = plan.finish(plan.sending([self._rows(rows)], Task()))
        except ProcessKilled:
            self.world.calls.killed = False
            return None
        except LanesError as error:
            return report(error if plan is None else WriteFailedError(str(error), plan.abandon(str(error))))
        sys.stdout.write(json.dumps(done) + "\n")
        return 0

    def _rows(self, rows):
        for row in rows:
            yield {"data": json.dumps(row), "id": row["id"]}


class Task:
    """The context of the only task of a write."""

    def partitionId(self):  # noqa: N802
        """Give the number of the partition."""
        return 0

    attemptNumber = taskAttemptId = partitionId  # noqa: N815

    def getLocalProperty(self, _key):  # noqa: N802
        """Give no setting."""


@pytest.fixture
def bulk(tmp_path, monkeypatch):
    """Give a job without a message yet."""
    return Bulk("pull", tmp_path, monkeypatch)


def rows(count):
    return [{"id": f"c-{number}"} for number in range(count)]


@pytest.mark.parametrize("members", [1, 90])
def test_the_end_is_told_after_the_last_end(bulk, capsys, members):
    """Members are the messages that were sent: equal rows are one."""
    bulk.dies = {"c-3"}
    dead = int(members > 3)

    assert bulk.job([*rows(members), *rows(members)[:2]]) == 0
    assert json.loads(capsys.readouterr().out)["members"] == members
    assert (bulk.progress().head.state, bulk.announced) == (State.SEALED, [])
    bulk.drain()

    assert bulk.announced == [
        {
            "run": NAME,
            "total": members,
            "done": members - dead,
            "dead_lettered": dead,
            "cancelled": 0,
            "expired": 0,
        }
    ]


def test_a_job_that_failed_seals_nothing_and_its_rerun_does(bulk, capsys):
    """The rows that the first session sent are skipped, and are members; a row that left the table is one too."""
    assert bulk.job([*rows(10), BAD]) == 1
    bulk.drain()
    assert (bulk.progress().head.state, bulk.announced) == (State.OPEN, [])
    assert bulk.progress().counts == Counts(unassigned=10)

    assert bulk.job(rows(15)[1:]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["skipped"] == 9
    bulk.drain()

    assert bulk.progress().counts == Counts(done=15)
    assert [told["total"] for told in bulk.announced] == [15]


def test_a_run_that_an_operator_cancels_ends(bulk):
    """By its name; messages of others with the same kind are handled."""
    assert bulk.job(rows(3)) == 0
    bulk.world.send("MAIN", KIND, id="other")
    now = bulk.world.clock.now
    wanted = MessageFilter(run=NAME)
    override = Override(
        id="o", action=Action.CANCEL, wanted=wanted, created_at=now, expires_at=now + 86_400, who="ops"
    )
    bulk.world.overrides.add(override)

    bulk.drain()

    assert bulk.handled == {"other"}
    assert [(told["cancelled"], told["done"]) for told in bulk.announced] == [(3, 0)]


@pytest.mark.parametrize(
    "fault",
    ["killed after", *(pytest.param(one, marks=pytest.mark.deep) for one in FAULTS if one != "killed after")],
)
def test_the_end_is_told_whatever_call_fails(tmp_path, monkeypatch, fault):
    """Of the job, which is run again, of a consumer, and of the process that tells it."""
    for position in range(100):
        bulk = Bulk("pull", tmp_path / str(position), monkeypatch)
        bulk.folder.mkdir()
        bulk.dies = {"c-1"}
        bulk.plan = [None] * position + [fault]
        if bulk.job(rows(4)) != 0 and not bulk.progress().head.sealed_at:
            assert bulk.job(rows(4), takeOver="true") == 0, position
        for _ in range(6):
            bulk.step()
        reached = not bulk.plan
        bulk.drain()
        assert {told["total"] for told in bulk.announced} == {4}, position
        assert bulk.progress().counts == Counts(done=3, dead_lettered=1), position
        if not reached:
            return
    raise AssertionError("the plan was never used up")


def test_a_throttled_table_is_tried_again(bulk):
    """A job of hours does not fail for it."""
    working, bulk.world.runs.seal_chunk = bulk.world.runs.seal_chunk, None
    answers = iter([True, True, False])

    def seal_chunk(*arguments):
        if next(answers):
            bulk.plan = ["refused"]
        return working(*arguments)

    bulk.world.runs.seal_chunk = seal_chunk
    assert bulk.job(rows(2)) == 0
    assert len(bulk.pauses) == 2
    bulk.drain()
    assert bulk.progress().counts == Counts(done=2)


def test_a_rerun_of_a_complete_run_is_a_success_and_sends_nothing(bulk, capsys):
    """A scheduler that retries gets its success, before and after the end is told."""
    assert bulk.job(rows(2)) == 0
    for _ in range(2):
        capsys.readouterr()
        assert bulk.job(rows(2)) == 0
        done = json.loads(capsys.readouterr().out)
        assert (done["messages"], done["skipped"], done["members"]) == (0, 2, 2)
        bulk.drain()
    assert bulk.handled == {"c-0", "c-1"}
    assert len(bulk.announced) == 1


def test_a_row_that_cannot_join_a_sealed_run_is_refused_before_it_is_sent(bulk, capsys):
    """Its message would be a stranger to the run; the session that was refused is no obstacle to others."""
    assert bulk.job(rows(2)) == 0
    for _ in range(2):
        assert bulk.job(rows(3)) == 1
        assert "its run is sealed, and it is not one of the members" in capsys.readouterr().err
    bulk.drain()
    assert bulk.handled == {"c-0", "c-1"}
    assert [told["total"] for told in bulk.announced] == [2]


@pytest.mark.parametrize("chunk", [0, 1, 2])
def test_a_run_whose_driver_died_in_the_seal_is_sealed_before_anything_more_is_sent(bulk, capsys, chunk):
    """A row that was added meanwhile is refused, and the end of the members is told."""
    working, calls = bulk.world.runs.seal_chunk, []

    def seal_chunk(*arguments):
        calls.append(arguments)
        if len(calls) > chunk:
            raise ProcessKilled
        return working(*arguments)

    bulk.world.runs.seal_chunk = seal_chunk
    assert bulk.job(rows(3), expected=80) is None or chunk == 2
    bulk.world.runs.seal_chunk = working

    assert bulk.job(rows(4), expected=80, takeOver="true") == 1
    assert "it is not one of the members" in capsys.readouterr().err
    bulk.drain()

    assert bulk.handled == {"c-0", "c-1", "c-2"}
    assert [(told["total"], told["done"]) for told in bulk.announced] == [(3, 3)]


def test_a_session_that_was_taken_over_seals_nothing(bulk, monkeypatch, capsys):
    """Not even when it has sent all of its rows: the other has members of its own."""
    sealed = following.end

    def late(*arguments, **options):
        monkeypatch.setattr(following, "end", sealed)
        assert bulk.job(rows(3), takeOver="true") == 0
        return sealed(*arguments, **options)

    monkeypatch.setattr(following, "end", late)
    assert bulk.job(rows(2)) == 1
    assert re.search(
        r"session \S+, which began at \S+, has taken over run 'statements'", capsys.readouterr().err
    )
    bulk.drain()
    assert [told["total"] for told in bulk.announced] == [3]


def test_two_drivers_that_seal_the_same_members_are_one(bulk, monkeypatch):
    """Each write may be repeated, in any order."""
    sealed = following.end

    def twice(*arguments, **options):
        sealed(*arguments, **options)
        return sealed(*arguments, **options)

    monkeypatch.setattr(following, "end", twice)
    assert bulk.job(rows(3)) == 0
    bulk.drain()
    assert [told["total"] for told in bulk.announced] == [3]


@pytest.mark.parametrize("first", [{}, {"follow": "true"}])
def test_a_run_is_followed_from_its_first_session_or_never(bulk, capsys, first):
    """What was sent without the mark would never end."""
    second = {} if first else {"follow": "true"}
    assert bulk.job([BAD, *rows(2)], follow=first) == 1

    assert bulk.job(rows(2), follow=second) == 1

    assert "run 'statements' is another run: follow is " in capsys.readouterr().err


def test_a_manifest_of_an_older_release_is_no_beginning(bulk, capsys):
    """Its purpose says nothing of following."""
    assert bulk.job([*rows(10), BAD], follow={}) == 1
    purpose = bulk.folder / "runs" / NAME / "purpose.json"
    known = json.loads(purpose.read_text())
    purpose.write_text(
        json.dumps({name: known[name] for name in known if name not in ("follow", "on_complete")})
    )

    assert bulk.job(rows(2)) == 1

    assert "has sent messages without its mark" in capsys.readouterr().err
    assert bulk.world.runs.head(NAME) is None


def test_without_follow_no_message_has_a_mark(bulk):
    """And no call is made to the table of runs."""
    assert bulk.job(rows(2), follow={}) == 0
    assert "UpdateItem" not in bulk.world.calls.counts
    bulk.drain()
    assert bulk.handled == {"c-0", "c-1"}
    assert bulk.world.runs.head(NAME) is None


def test_a_job_whose_run_is_closed_fails_and_ends_its_session(bulk, monkeypatch, capsys):
    """By an operator, while it sends; the reason is in the summary of the session."""
    sealed = following.end

    def closed(*arguments, **options):
        bulk.world.runs.close(NAME, who="ops", why="wrong month")
        return sealed(*arguments, **options)

    monkeypatch.setattr(following, "end", closed)
    assert bulk.job(rows(2)) == 1

    said = capsys.readouterr()
    assert "can't be sealed with 2 members: it is closed" in said.err
    summary = json.loads(said.out)
    assert (summary["messages"], summary["event"]) == (2, "rows_not_all_sent")
    assert "it is closed" in summary["reason"]
    assert bulk.job(rows(2)) == 1
    assert "is closed; give another name" in capsys.readouterr().err


def test_a_writer_that_cannot_count_its_rows_is_refused(bulk, tmp_path):
    """The chunks of a run follow from their number; nothing has begun."""
    options = {"deployment": bulk.world.deployment.to_json(), "kind": KIND, "follow": "true"}
    run = {"runId": NAME, "manifestPath": str(tmp_path / "runs")}

    with pytest.raises(
        ConfigurationError, match=r"can't count them; call write_partitions\(table, options\)"
    ):
        WritePlan.make(options | run, None)

    assert not (tmp_path / "runs").exists()
    assert bulk.world.runs.head(NAME) is None
