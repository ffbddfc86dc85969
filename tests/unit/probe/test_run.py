"""One probe: its files, and a stack that is destroyed whatever happens."""

import json
from datetime import UTC, datetime

import pytest

from lanes.errors import AwsError, ConfigurationError
from lanes.probe.analysis import analysed
from lanes.probe.experiments import EXPERIMENTS, FULL, QUICK, Bench, IncompleteError
from lanes.probe.profile import read_profile
from lanes.probe.run import events_beside, read_events, run
from lanes.probe.stack import StackError

NOW = datetime(2026, 11, 22, 15, tzinfo=UTC)
REFUSED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)


class Stack:
    """A stack that records its calls."""

    def __init__(self, *, error=None, left=None):
        self.calls = []
        self._error = error
        self._left = left

    def deploy(self):
        self.calls.append("deploy")
        if self._error is not None:
            raise self._error
        return {"control": "url", "polls": "url"}, "table"

    def destroy(self):
        self.calls.append("destroy")
        if self._left is not None:
            raise self._left


class Stand:
    """Answers each task of the polls at once."""

    def __init__(self, *, error=None, answer=None):
        self.sent = []
        self._error = error
        self._answer = answer or {
            "event": "polls",
            "polls": ([[0, True]] * 9 + [[0, False]]) * 30,
            "waiting": 3,
        }

    def url(self, queue):
        return f"https://{queue}"

    def send(self, queue, messages):
        if self._error is not None:
            raise self._error
        self.sent += [(queue, json.loads(body)) for _, body in messages]

    def events(self, run):
        return [{"at": 1.0, **self._answer}]


def probed(stack, stand, tmp_path):
    """Run the short polls alone."""
    return run(
        stack,
        lambda _queues, _table: stand,
        QUICK,
        tmp_path / "aws-profile.toml",
        names=["polls"],
        now=NOW,
        region="eu-central-1",
        report=lambda _line: None,
    )


def test_a_probe_leaves_its_files_and_no_stack(tmp_path):
    """The profile comes from the events, which are kept."""
    stack, stand = Stack(), Stand()
    profile = probed(stack, stand, tmp_path)
    out = tmp_path / "aws-profile.toml"

    assert stack.calls == ["deploy", "destroy"]
    assert [task["task"] for _, task in stand.sent] == ["polls"]
    assert profile.sections["polls"]["missed"].typical == pytest.approx(0.1)
    assert (profile.region, profile.measured_at) == ("eu-central-1", "2026-11-22T15:00:00+00:00")
    assert read_profile(out).sections["polls"]["missed"].samples == 300
    assert analysed(read_events(events_beside(out))) == profile


@pytest.mark.parametrize("error", [REFUSED, KeyboardInterrupt()], ids=["refused", "interrupted"])
@pytest.mark.parametrize("when", ["deploy", "send"])
def test_the_stack_is_destroyed_after_a_failure(tmp_path, error, when):
    """A failed deployment may have left a part of it."""
    stack = Stack(error=error if when == "deploy" else None)
    stand = Stand(error=error if when == "send" else None)

    with pytest.raises(type(error)):
        probed(stack, stand, tmp_path)
    assert stack.calls == ["deploy", "destroy"]


@pytest.mark.parametrize(("error", "said"), [(REFUSED, "AccessDenied"), (KeyboardInterrupt(), "interrupted")])
def test_a_stack_that_is_left_hides_no_earlier_failure(tmp_path, error, said):
    """Both are said, the first one first."""
    stack = Stack(error=error, left=StackError("cdk destroy failed"))

    with pytest.raises(StackError, match=f"(?s){said}.*\ncdk destroy failed"):
        probed(stack, Stand(), tmp_path)


def test_a_file_that_cannot_be_written_is_found_before_the_deployment(tmp_path):
    """Not after half an hour."""
    stack = Stack()

    with pytest.raises(ConfigurationError, match="the file cannot be written"):
        probed(stack, Stand(), tmp_path / "nowhere")
    assert stack.calls == []


def test_an_error_of_the_function_makes_the_profile_incomplete(tmp_path):
    """With its text; nothing is concluded."""
    stand = Stand(answer={"event": "error", "text": "ClientError: AccessDenied"})
    profile = probed(Stack(), stand, tmp_path)

    assert profile.incomplete == ("polls: ClientError: AccessDenied",)
    assert profile.sections == {}


@pytest.mark.parametrize("line", ["no json", "[]", '{"run": "polls"}'])
def test_a_line_that_is_no_event_is_named(tmp_path, line):
    """Of a file that is to be analysed again."""
    path = tmp_path / "some.events.jsonl"
    path.write_text('{"run": "a", "event": "start", "at": 1}\n' + line + "\n")

    with pytest.raises(ConfigurationError, match="line 2 is not an event of a probe"):
        read_events(path)


def test_the_whole_probe_takes_less_than_half_an_hour():
    """As the command says; every experiment has an estimate."""
    assert FULL.seconds.keys() == QUICK.seconds.keys() == EXPERIMENTS.keys()
    assert 5 < FULL.minutes() < 20
    assert QUICK.minutes() < 8
    assert FULL.minutes(["calls"]) < FULL.minutes(["calls", "bell"]) < FULL.minutes()


def test_an_experiment_without_all_of_its_events_is_given_up(tmp_path):
    """The clock of the bench decides; the events so far are kept."""
    kept, now = [], iter(range(0, 10_000, 30))
    stand = Stand(answer={"event": "start"})
    bench = Bench(stand, QUICK, keep=kept.extend, clock=lambda: next(now), sleep=lambda _seconds: None)

    with pytest.raises(IncompleteError, match="polls: some events are missing"):
        EXPERIMENTS["polls"](bench)
    assert [event["event"] for event in kept] == ["start"]
