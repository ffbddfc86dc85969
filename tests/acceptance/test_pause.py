"""`lanes pause` and `resume` on the whole stack, deployed and running on this machine."""

import json
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lanes.config import LanesConfig
from local.deploy import CdkApp
from local.platform import Platform
from tests.support.command import ROOT, Command, Typed
from tests.support.waiting import until

TIMEOUT = 120


class Handled:
    """Waits for messages that the function says it is done with."""

    def __init__(self):
        self._changed = threading.Condition()
        self.ids = []
        self.lanes = {}

    def __call__(self, _function, line):
        if '"resource": "finished"' in line:
            with self._changed:
                self.ids.append(json.loads(line)["id"])
                self._changed.notify_all()
        elif '"event":"message_handled"' in line.replace('": "', '":"'):
            done = json.loads(line)
            self.lanes[done["id"]] = done["lane"]

    def wait_for(self, ids):
        with self._changed:
            assert self._changed.wait_for(lambda: set(ids) <= set(self.ids), TIMEOUT), self.ids


@pytest.fixture(scope="module")
def handled():
    """What the function did."""
    return Handled()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, handled):
    """The stack of the demo's stage."""
    if shutil.which("cdk", path=str(Path(ROOT, ".venv", "bin"))) is None:
        pytest.skip("the cdk command is not there")
    app = CdkApp(directory=ROOT, stage="demo")
    with Platform(app=app, on_line=handled, build_directory=tmp_path_factory.mktemp("build")) as running:
        yield running


@pytest.fixture(scope="module")
def lanes(platform):
    """The command within this process."""
    return Typed(platform.endpoint_url)


def lines(prefix, count, **more):
    """Write messages as lines."""
    rows = [{"kind": "order.placed", "data": {}, "id": f"{prefix}-{n}", **more} for n in range(count)]
    return "\n".join(map(json.dumps, rows))


def ids(prefix, count):
    """Give the ids of those lines."""
    return [f"{prefix}-{n}" for n in range(count)]


def states(lanes):
    """Give the state of each lane's mapping."""
    return {row["lane"]: row["mapping"] for row in lanes.json("--stage", "demo", "status")}


def test_a_fresh_deployment_passes_its_check(lanes):
    """What can't be asked on this machine is unknown and not wrong."""
    found = lanes.json("--stage", "demo", "check")

    assert [one for one in found if one["verdict"] == "wrong"] == []
    assert {"MAIN mapping", "function"} <= {one["subject"] for one in found if one["verdict"] == "ok"}


@pytest.mark.deep
def test_a_paused_lane_waits_holds_nobody_back_and_goes_on(platform, handled, lanes):
    """HIGH is paused with messages in it: MAIN is handled all the same, and HIGH after it is resumed."""
    command = Command(platform.endpoint_url)
    assert "would pause" in lanes("--stage", "demo", "pause", "high", "--dry-run").stderr
    assert states(lanes)["HIGH"] == "Enabled"

    paused = command.json("--stage", "demo", "pause", "high")

    assert (paused["mapping"], states(lanes)["HIGH"]) == ("Disabled", "Disabled")
    high = next(one for one in platform.mappings.values() if "HIGH" in one.queue_name)
    until(lambda: not high.settings.enabled and high.running == 0)
    lanes.json("--stage", "demo", "send", "-f", "-", text=lines("urgent", 3, priority=50))
    lanes.json("--stage", "demo", "send", "-f", "-", text=lines("bulk", 5, priority=-100))

    handled.wait_for(ids("bulk", 5))
    row = lanes.json("--stage", "demo", "status")[0]
    assert (row["waiting"], row["in_flight"]) == (3, 0)
    assert not set(ids("urgent", 3)) & set(handled.ids)
    check = lanes("--stage", "demo", "check")
    assert (check.returncode, "lanes resume HIGH" in check.stdout) == (3, True)

    lanes.json("--stage", "demo", "resume", "HIGH")

    handled.wait_for(ids("urgent", 3))
    assert states(lanes)["HIGH"] == "Enabled"
    actions = [entry["action"] for entry in lanes.json("--stage", "demo", "audit")]
    assert [action for action in actions if action != "send"] == ["resume", "pause"]


def test_a_lane_in_the_wanted_state_is_left_alone(lanes):
    """Nothing is changed and nothing noted."""
    before = lanes.json("--stage", "demo", "audit")

    done = lanes("--stage", "demo", "resume", "main")

    assert (done.returncode, "already" in done.stderr) == (0, True)
    assert lanes.json("--stage", "demo", "audit") == before


def test_what_the_function_gave_up_is_shown_with_its_reason_and_redriven(handled, lanes):
    """The whole way of a failing message: the consumer's note is what the command reads."""
    text = lines("poison", 1, data={"fault": "always"}, priority=0)
    lanes.json("--stage", "demo", "send", "-f", "-", text=text)
    until(lambda: lanes.json("--stage", "demo", "status")[1]["dead_letters"] == 1)

    (letter,) = lanes.json("--stage", "demo", "dead-letters", "list", "medium")

    most = LanesConfig.load(ROOT / "lanes.toml", stage="demo").consumer.max_attempts
    assert (letter["id"], letter["attempts"], letter["reason"]) == ("poison-0", most, "attempts exhausted")
    shown = lanes.json("--stage", "demo", "dead-letters", "show", "poison-0")
    assert json.loads(shown["body"])["data"] == {"fault": "always"}
    assert lanes.json("--stage", "demo", "dead-letters", "redrive", "medium", "--yes")["redriven"] == 1


@pytest.mark.deep
def test_what_waits_in_a_queue_is_cancelled_and_sent_on(platform, handled, lanes):
    """One message is cancelled and never handled; another is handled in HIGH, the others where they were."""
    # The message that was redriven fails again, and would count as waiting until then.
    until(lambda: lanes.json("--stage", "demo", "status")[1]["dead_letters"] == 1)
    lanes.json("--stage", "demo", "pause", "main")
    main = next(one for one in platform.mappings.values() if "MAIN" in one.queue_name)
    until(lambda: not main.settings.enabled and main.running == 0)
    lanes.json("--stage", "demo", "send", "-f", "-", text=lines("waits", 4, priority=-100))
    lanes.json("--stage", "demo", "cancel", "--id", "waits-1", "--why", "sent twice", "--yes")
    moved = lanes.json("--stage", "demo", "prioritize", "60", "--id", "waits-2", "--yes")
    assert moved["messages_waiting"] == 4
    until(lambda: datetime.now(UTC) > datetime.fromisoformat(moved["applies_to_receives_from"]))

    lanes.json("--stage", "demo", "resume", "main")

    until(lambda: {"waits-0", "waits-2", "waits-3"} <= handled.lanes.keys())
    (gone,) = lanes.json("--stage", "demo", "overrides", "cancelled")
    assert (gone["id"], gone["why"], "waits-1" in handled.ids) == ("waits-1", "sent twice", False)
    assert handled.lanes["waits-2"] == "HIGH"
    assert {handled.lanes["waits-0"], handled.lanes["waits-3"]} == {"MAIN"}


def test_a_message_that_yielded_and_failed_is_traced_as_that(handled, lanes):
    """Every receive of it with its cause, as the function had logged it, and nothing else."""
    for turn in range(25):  # a quick machine may be through before HIGH is seen
        slow = f"slow{turn}"
        # In one call, so that HIGH has work while MAIN runs, however quick the machine is.
        both = [
            lines(slow, 20, data={"fault": "once"}, priority=-100),
            lines(f"fast{turn}", 120, priority=50),
        ]
        lanes.json("--stage", "demo", "send", "-f", "-", text="\n".join(both))
        handled.wait_for(ids(slow, 20))
        shown = lanes(
            *("--stage", "demo", "--output", "json", "tail", "--since", "1m", "--times", "1"),
            *("--event", "yielded"),
        )
        told = [one for line in shown.stdout.splitlines() for one in json.loads(line)["messages"]]
        if yielded := {one["id"] for one in told} & set(ids(slow, 20)):
            break
    trace = wait_for_trace(lanes, min(yielded))

    assert (whats(trace)[0], whats(trace)[-1]) == ("sent", "handled")
    assert whats(trace).count("failed") == whats(trace).count("handled") == 1
    assert set(whats(trace)) <= {"sent", "yielded", "woken", "failed", "returned", "throttled", "handled"}
    assert trace["status"].startswith("done")
    told = [step for step in trace["steps"] if step["receive"]]
    assert told[0]["receive"].split(" ")[0] == "1"
    assert f"(receives {told[-1]['receive']}," in trace["status"]
    assert "which has a backlog" in next(step["why"] for step in trace["steps"] if step["what"] == "yielded")
    assert "the resource refused" in next(step["why"] for step in trace["steps"] if step["what"] == "failed")
    assert "attempt 2 succeeded" in trace["steps"][-1]["why"]


def whats(trace):
    """Give what happened, step by step."""
    return [step["what"] for step in trace["steps"]]


def wait_for_trace(lanes, one):
    """Trace a message that was handled a moment ago: its last line may still be on its way."""
    found = []

    def is_done():
        found[:] = [lanes.json("--stage", "demo", "trace", one)]
        return found[0]["status"].startswith("done")

    until(is_done)
    return found[0]
