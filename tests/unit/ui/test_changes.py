"""Plans and jobs: what was previewed is made, once, and can be stopped."""

import threading
from types import SimpleNamespace

import pytest

from lanes.depth import LaneDepth
from lanes.errors import AwsError, ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.operate.move import Change as OverrideChange
from lanes.operate.move import Found
from lanes.operate.pause import LaneMapping, PulledLanes
from lanes.outbox.operations import EntryFilter
from lanes.outbox.operations import Preview as EntriesPreview
from lanes.overrides import Action
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryPauses
from lanes.ui.changes import Moving, Preview, Stopped, Switch
from lanes.ui.jobs import MAX_PLANS, PLAN_LASTS, Jobs, Plans
from tests.support.operating import QueueMappings

PREVIEW = Preview(title="Do it", verb="Do", points=(), counts={})
TIMEOUT = 60


class Change:
    """A change that does what a test says."""

    def __init__(self, make=lambda _course: {"done": 1}):
        self._make = make

    def preview(self):
        return PREVIEW

    def make(self, progress):
        return self._make(progress)


def run(change, jobs=None):
    """Make a change to its end; give the job's document."""
    job = (jobs or Jobs()).start(Plans().keep(change))
    job.thread.join(TIMEOUT)
    return job.document()


def test_a_plan_is_made_once():
    """A second click finds nothing."""
    plans = Plans()
    plan = plans.keep(Change())

    assert plans.take(plan.id) is plan
    with pytest.raises(ConfigurationError, match="preview it again"):
        plans.take(plan.id)


def test_a_plan_that_is_too_old_is_not_made():
    """What it showed may be long over."""
    clock = FakeClock(0.0)
    plans = Plans(clock=clock)
    plan = plans.keep(Change())
    clock.now = PLAN_LASTS.total_seconds() + 1

    with pytest.raises(ConfigurationError, match="too old"):
        plans.take(plan.id)


def test_plans_that_nobody_makes_do_not_pile_up():
    """The oldest goes."""
    plans = Plans()
    first, *_, last = [plans.keep(Change()) for _ in range(MAX_PLANS + 1)]

    assert plans.take(last.id) is last
    with pytest.raises(ConfigurationError):
        plans.take(first.id)


def test_a_job_tells_how_it_ended():
    """Done, failed with an explanation, or failed by a mistake of ours."""
    denied = AwsError(operation="SendMessage", code="AccessDenied", retryable=False)

    def refused(_course):
        raise denied

    def broken(_course):
        raise ZeroDivisionError

    done, failed, mistaken = run(Change()), run(Change(refused)), run(Change(broken))

    assert (done["state"], done["result"]) == ("done", {"done": 1})
    assert (failed["state"], failed["fault"].title) == ("failed", "You may not call SendMessage")
    assert (mistaken["state"], mistaken["fault"].status) == ("failed", 500)


def test_a_job_tells_how_far_it_is_and_stops_when_asked():
    """At its next report, by what Ctrl-C would raise in a verb."""
    reported, may_go_on = threading.Event(), threading.Event()
    raised = []

    def long(progress):
        progress.report(3, 10)
        reported.set()
        may_go_on.wait(TIMEOUT)
        try:
            progress.report(4)
        except Stopped as stopped:
            raised.append(isinstance(stopped, KeyboardInterrupt))
            raise

    job = Jobs().start(Plans().keep(Change(long)))
    reported.wait(TIMEOUT)
    running = job.document()
    job.stop()
    may_go_on.set()
    job.thread.join(TIMEOUT)

    assert (running["state"], running["done"], running["expected"]) == ("running", 3, 10)
    assert (job.document()["state"], job.document()["done"]) == ("stopped", 4)
    assert raised == [True]


def test_the_end_of_the_page_stops_its_jobs():
    """Also one that waits; what does not stop in time is named."""
    jobs, deaf = Jobs(), threading.Event()
    waiting = jobs.start(Plans().keep(Change(lambda progress: progress.pause(3600))))
    assert jobs.stop(within=TIMEOUT) == []
    assert waiting.document()["state"] == "stopped"

    jobs.start(Plans().keep(Change(lambda _course: deaf.wait(TIMEOUT) and {})))
    assert jobs.stop(within=0.01) == ["Do it"]
    deaf.set()


def test_after_every_job_the_lanes_are_read_anew():
    """However it ended."""
    calls = []
    jobs = Jobs(after=lambda: calls.append(1))

    def broken(_course):
        raise ZeroDivisionError

    run(Change(), jobs)
    run(Change(broken), jobs)

    assert calls == [1, 1]


def test_an_unknown_job_is_said():
    """Its page may be older than this run."""
    with pytest.raises(ConfigurationError, match="no such job"):
        Jobs().get("nobody")


@pytest.mark.parametrize(
    ("entries", "queued", "kind", "verb"),
    [
        (37, None, None, "Cancel 37 messages"),
        (1, None, "a", "Cancel 1 message"),
        (37, {"HIGH": 1_000, "MAIN": 200}, "a", "Cancel up to 1,237 messages"),
        (0, {"HIGH": 5}, None, "Cancel 5 messages"),
    ],
)
def test_the_two_buttons_of_a_cancellation_differ(monkeypatch, entries, queued, kind, verb):
    """Beside a button that only says cancel, another one would do the opposite."""
    change = OverrideChange(action=Action.CANCEL, wanted=MessageFilter(kind=kind))
    preview = EntriesPreview(
        count=entries, states={}, kinds={}, lanes={}, lowest=None, highest=None, sample=()
    )
    found = Found(entries=EntryFilter(), preview=preview, queued=queued)
    monkeypatch.setattr(Moving, "_move", lambda _moving: SimpleNamespace(find=lambda: found))
    session = SimpleNamespace(has_outbox=True)

    shown = Moving(session=session, change=change, lanes=queued is not None, outbox=True).preview()

    assert (shown.verb, shown.dismiss) == (verb, "Keep them")


def test_the_preview_of_a_pause_is_true_in_the_pull_engine():
    """No mapping is switched there, and the command does not wait."""
    mapping = LaneMapping(
        uuid="u",
        state="Enabled",
        function_arn="f",
        batch_size=1,
        maximum_concurrency=3,
        reports_failures=True,
    )
    operations = SimpleNamespace(
        mappings=PulledLanes(
            calls=QueueMappings(mapping), pauses=MemoryPauses(Calls()), ring=lambda _lane: None
        ),
        depths=SimpleNamespace(depth=lambda _lane: LaneDepth(backlog=5, in_flight=2)),
        deployment=SimpleNamespace(bell="https://sqs/1/bell.fifo"),
    )

    preview = Switch(session=SimpleNamespace(operations=operations), lane="MAIN", enabled=False).preview()

    assert "Slots stop receiving from it within about five seconds" in preview.points[1]
    assert preview.counts == {"now": {"mapping": "Enabled", "waiting": 5, "in flight": 2}}
