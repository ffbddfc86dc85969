"""`lanes runs`, over runs in memory."""

import json
import re
from types import SimpleNamespace

import pytest

from lanes import Consumer, DeadLetter, Message
from lanes.cli import move, printing
from lanes.cli import runs as verbs
from lanes.errors import AwsError
from lanes.operate.runs import RATE_SECONDS, RunRate
from lanes.testing import InMemoryLanes
from lanes.testing.clock import FakeClock
from tests.support.operating import Trail


@pytest.fixture
def desk(monkeypatch):
    """Lanes in memory behind the command; `desk.bad` are the messages that no handler wants."""
    consumer, bad = Consumer(), set()

    @consumer.handler("statement")
    def write(message):
        if message.id in bad:
            raise DeadLetter("unwanted")

    lanes = InMemoryLanes(consumer)
    operations = SimpleNamespace(runs=lanes._stack.runs, audit=Trail())
    monkeypatch.setattr(verbs, "operations_of", lambda _context: operations)
    monkeypatch.setattr(verbs.time, "time", lanes.clock)

    def send(name, count):
        with lanes.producer.run(name, expected=count) as run:
            run.send_many(Message(kind="statement", data=n, id=f"s-{n}") for n in range(count))

    return SimpleNamespace(lanes=lanes, operations=operations, bad=bad, send=send)


def test_show_counts_the_ends_of_a_run(typed, desk):
    """While it goes on, and with its rate so far."""
    desk.bad.add("s-1")
    desk.send("nov", 25)
    desk.lanes.run_until(lambda: bool(desk.lanes.journal.handled))

    found = typed.json("runs", "show", "nov")
    assert (found["run"], found["state"], found["total"], found["exact"]) == ("nov", "sealed", 25, True)
    ended = found["done"] + found["dead_lettered"]
    assert 0 < ended < ended + found["left"] == 25
    assert found["rate"] == pytest.approx(
        ended / (desk.lanes.clock() - desk.lanes.clock.started_at), rel=0.01
    )
    assert found["eta"] == pytest.approx(found["left"] / found["rate"], abs=1)


@pytest.mark.parametrize("verb", ["show", "watch"])
@pytest.mark.parametrize(("bad", "status"), [([], 0), (["s-1"], 3)])
def test_a_run_with_dead_letters_ends_with_3(typed, desk, verb, bad, status):
    """An orchestrator acts on it."""
    desk.bad.update(bad)
    desk.send("nov", 3)
    desk.lanes.run_until_idle()

    done = typed("--output", "json", "runs", verb, "nov")

    found = json.loads(done.stdout)
    assert (done.returncode, found["state"], found["left"], found["eta"]) == (status, "ended", 0, None)
    assert (found["done"], found["dead_lettered"]) == (3 - len(bad), len(bad))


@pytest.mark.parametrize("verb", ["show", "watch"])
def test_a_run_that_is_over_prints_no_eta(typed, desk, verb):
    """It has none; unknown would mean that it may end."""
    desk.send("nov", 3)
    assert re.search(r"^ *eta +unknown", typed("runs", "show", "nov").stdout, re.MULTILINE)
    desk.lanes.run_until_idle()

    shown = typed("runs", verb, "nov").stdout

    assert "rate" in shown
    assert "eta" not in shown


def test_watch_says_how_far_it_is_until_the_end(typed, desk, monkeypatch):
    """Lines where there is no terminal, one for each change."""
    desk.send("nov", 40)

    class Waiting:
        def wait(self, _seconds):
            desk.lanes.run_for(1)

    monkeypatch.setattr(printing.threading, "Event", Waiting)
    done = typed("--output", "json", "runs", "watch", "nov")

    lines = [line for line in done.stderr.splitlines() if line.startswith("nov is ")]
    assert done.returncode == 0
    assert lines[0] == "nov is sealed: 0 of 40"
    assert lines[-1].startswith("nov is ended: 40 of 40")
    assert len(lines) == len(set(lines)) > 2
    assert json.loads(done.stdout)["rate"] > 0


def test_watch_ends_with_4_if_the_time_is_over(typed, desk):
    """The run goes on; a script may watch it again."""
    desk.send("nov", 4)

    done = typed("--output", "json", "runs", "watch", "nov", "--timeout", "0s")

    assert done.returncode == 4
    assert "nov has not ended within 0s" in done.stderr
    assert json.loads(done.stdout)["left"] == 4


def test_watch_ends_with_4_also_if_aws_fails_until_then(typed, desk, monkeypatch):
    """A script gets its turn again; each failed try is said."""
    desk.send("nov", 4)
    heads, clock = [desk.operations.runs.head("nov")], FakeClock()

    def head(_name):
        if heads:
            return heads.pop()
        raise AwsError(operation="GetItem", code="ProvisionedThroughputExceededException", retryable=True)

    class Waiting:
        def wait(self, seconds):
            clock.advance(seconds)

    monkeypatch.setattr(desk.operations.runs, "head", head)
    monkeypatch.setattr(printing.threading, "Event", Waiting)
    monkeypatch.setattr(printing.time, "monotonic", clock)

    done = typed("--output", "json", "runs", "watch", "nov", "--timeout", "5s", "--interval", "2s")

    assert done.returncode == 4
    assert done.stderr.count("trying again") == 3
    assert "nov has not ended within 5s" in done.stderr


def test_close_ends_the_wait_for_a_run(typed, desk):
    """With who and why, also in the audit trail; what is left is a reason for 3."""
    desk.send("nov", 2)
    dry = typed("runs", "close", "nov", "--why", "bank has it", "--dry-run")
    assert (dry.returncode, "would close nov, which is sealed" in dry.stderr) == (0, True)
    assert desk.operations.audit.written == []

    closed = typed.json("runs", "close", "nov", "--why", "bank has it")
    again = typed("runs", "close", "nov", "--why", "twice")

    assert (closed["state"], closed["who"], closed["why"]) == ("closed", "ops", "bank has it")
    assert "nov is closed already; nothing was changed" in again.stderr
    assert {entry[:2] for entry in desk.operations.audit.written} == {("runs close", "nov")}
    assert typed("runs", "watch", "nov").returncode == 3


def test_a_run_that_is_closed_before_it_is_whole_has_failed(typed, desk):
    """Its sender died, say: how many messages are left is not known, so a script must not take it for done."""
    desk.lanes.producer.run("nov", expected=40).__enter__()

    typed("runs", "close", "nov", "--why", "its sender died")

    assert typed("runs", "watch", "nov").returncode == typed("runs", "show", "nov").returncode == 3


def test_list_has_the_latest_run_first(typed, desk):
    """With their times."""
    assert "no run was opened" in typed("runs", "list").stderr
    desk.send("oct", 1)
    desk.lanes.run_for(60)
    desk.send("nov", 2)

    assert [(one["run"], one["state"], one["total"]) for one in typed.json("runs", "list")] == [
        ("nov", "sealed", 2),
        ("oct", "ended", 1),
    ]


@pytest.mark.parametrize("verb", ["show", "watch", "close"])
def test_a_run_that_nobody_opened_is_named(typed, desk, verb):
    """With the one that was meant."""
    desk.send("statements-11", 1)
    options = ["--why", "x"] if verb == "close" else []

    done = typed("runs", verb, "statement-11", *options)

    assert done.returncode == 1
    assert "there is no run 'statement-11'" in done.stderr
    assert "statements-11" in done.stderr
    assert "lanes runs list" in done.stderr


def test_a_rate_is_that_of_the_last_minute():
    """Work that stands still has a rate of none soon; a smaller reading of a sample is none below zero."""
    rate = RunRate()
    assert (rate.per_second, rate.eta(5)) == (None, None)
    rate.add(0.0, 0)
    rate.add(10.0, 100)
    assert (rate.per_second, rate.eta(50)) == (10.0, 5.0)
    for second in range(20, 200, 10):
        rate.add(float(second), 100)
    assert (rate.per_second, rate.eta(50)) == (0.0, None)
    assert RATE_SECONDS == 60
    rate.add(201.0, 90)
    assert rate.per_second == 0.0


@pytest.mark.parametrize("verb", [["cancel"], ["prioritize", "60"]])
def test_a_change_of_a_run_needs_its_name_and_is_none_of_the_outbox(typed, desk, monkeypatch, verb):
    """A mistyped name would change nothing and say so only by a count."""
    monkeypatch.setattr(move, "operations_of", lambda _context: desk.operations)
    desk.operations.deployment = desk.lanes.producer.deployment
    desk.send("nov", 1)

    unknown = typed(*verb, "--run", "now", "--yes")
    elsewhere = typed(*verb, "--run", "nov", "--in", "outbox", "--yes")

    assert (unknown.returncode, elsewhere.returncode) == (1, 2)
    assert "there is no run 'now'; did you mean 'nov'?" in unknown.stderr
    assert "entries of an outbox belong to no run" in elsewhere.stderr


@pytest.mark.parametrize("verb", [["cancel"], ["prioritize", "60"]])
@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_a_change_of_a_run_that_has_ended_is_refused(typed, desk, monkeypatch, verb, dry_run):
    """Its override would look for messages that can't come, for two weeks."""
    monkeypatch.setattr(move, "operations_of", lambda _context: desk.operations)
    desk.operations.deployment = desk.lanes.producer.deployment
    desk.send("nov", 1)
    desk.lanes.run_until_idle()

    done = typed(*verb, "--run", "nov", "--yes", *dry_run)

    assert done.returncode == 1
    assert re.search(
        r"run 'nov' ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, so none of its messages waits", done.stderr
    )
    assert "`lanes dead-letters list --run nov`" in done.stderr


@pytest.mark.parametrize("verb", ["show", "watch"])
def test_a_large_run_is_a_sample_with_its_errors_and_exact_on_demand(typed, desk, monkeypatch, verb):
    """For people beside each count, for programs in `errors`."""
    monkeypatch.setattr("lanes.operate.runs.MOST_READ", 10)
    with desk.lanes.producer.run("nov", expected=800) as run:
        run.send_many(Message(kind="statement", data=n, id=f"s-{n}") for n in range(800))
    desk.lanes.run_until(lambda: len(desk.lanes.journal.handled) >= 300)
    more = ["--timeout", "0s"] if verb == "watch" else []

    sample = json.loads(typed("--output", "json", "runs", verb, "nov", *more).stdout)
    exact = json.loads(typed("--output", "json", "runs", verb, "nov", *more, "--exact").stdout)
    shown = typed("runs", verb, "nov", *more)

    assert (sample["exact"], exact["exact"]) == (False, True)
    assert abs(sample["done"] - exact["done"]) <= sample["errors"]["done"] < 400
    assert set(exact["errors"].values()) == {0}
    assert sample["done"] + sample["left"] == exact["done"] + exact["left"] == 800
    assert re.search(
        rf"^ *done +{sample['done']} ± {sample['errors']['done']} *$", shown.stdout, re.MULTILINE
    )
    assert "errors" not in shown.stdout
    if verb == "watch":
        assert f"nov is sealed: {sample['done']} ± {sample['errors']['left']} of 800" in shown.stderr
