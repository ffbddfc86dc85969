"""The pull engine on the whole stack, deployed and running on this machine, with the `lanes` command."""

import json
import threading

import pytest

from lanes import bell
from lanes.message import Message
from lanes.overrides import OVERRIDES_AGE
from local.deploy import CdkApp
from local.platform import Platform
from tests.support.command import ROOT, Typed
from tests.support.waiting import SLACK, TIMEOUT_SECONDS, until

APP = ROOT / "tests" / "local" / "switching_app"
STACK = "Switching"

# The deployment takes most of the time. Quick are the engine in processes, in tests/cli/test_work.py, and its stack's
# template.
pytestmark = pytest.mark.deep


class Handled:
    """The ids of handled messages, by the lines that the sample function prints."""

    def __init__(self):
        self._changed = threading.Condition()
        self.ids = []

    def __call__(self, _function, line):
        if '"resource": "finished"' in line:
            with self._changed:
                self.ids.append(json.loads(line)["id"])
                self._changed.notify_all()

    def wait_for(self, *ids):
        with self._changed:
            assert self._changed.wait_for(lambda: set(ids) <= set(self.ids), TIMEOUT_SECONDS), self.ids


@pytest.fixture(scope="module")
def handled():
    """What the function did."""
    return Handled()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, handled):
    """The stack."""
    app = CdkApp(directory=APP, context={"engine": "pull"})
    build = tmp_path_factory.mktemp("build")
    with Platform(app=app, on_line=handled, build_directory=build, slack=SLACK) as running:
        yield running


@pytest.fixture(scope="module")
def lanes(platform):
    """The command within this process."""
    typed = Typed(platform.endpoint_url)
    return lambda *words, text=None: typed.json("--stack", STACK, *words, text=text)


def send(lanes, *ids, priority):
    """Send messages with these ids."""
    rows = [{"kind": "order.placed", "data": {}, "id": one, "priority": priority} for one in ids]
    lanes("send", "-f", "-", text="\n".join(map(json.dumps, rows)))


def states(lanes):
    """Give the state of each lane."""
    return {row["lane"]: row["mapping"] for row in lanes("status")}


def bell_mapping(platform):
    """Give the running mapping of the bell."""
    (mapping,) = platform.mappings_of(platform.outputs[STACK]["BellQueueUrl"].rpartition("/")[2])
    return mapping


def test_what_the_command_sends_is_handled(platform, handled, lanes):
    """The send rings, and no lane has a mapping of its own."""
    send(lanes, "first", "second", priority=0)

    handled.wait_for("first", "second")
    assert len(platform.mappings) == 1
    assert bell_mapping(platform).counters()["errors"] == 0


def test_a_fresh_deployment_passes_its_check(platform, lanes):
    """Bell, its mapping and the function are as they should be, once the rule has sent the heartbeat."""
    (schedule,) = platform.schedules.values()
    schedule.once()
    found = lanes("check")

    assert [one for one in found if one["verdict"] == "wrong"] == []
    right = {one["subject"] for one in found if one["verdict"] == "ok"}
    assert {"bell", "bell mapping", "HIGH lane", "MAIN lane", "function"} <= right
    assert "HIGH mapping" not in right


def test_a_message_has_one_receive_in_its_trace(lanes):
    """Nothing was throttled or parked on its way."""

    def steps():
        found = lanes("trace", "first", "--since", "1h")
        return [(step["what"], step["receive"]) for step in found["steps"]]

    until(lambda: steps() == [("sent", ""), ("handled", "1")])


def test_a_paused_lane_waits_holds_nobody_back_and_goes_on(handled, lanes):
    """HIGH is paused with messages in it: MAIN is handled all the same, and HIGH after it is resumed."""
    paused = lanes("pause", "high")
    assert (paused["mapping"], states(lanes)) == ("Disabled", {"HIGH": "Disabled", "MAIN": "Enabled"})
    # The function may have read the paused lanes just before, and nothing shows when it reads them again.
    threading.Event().wait(OVERRIDES_AGE)
    send(lanes, "urgent", priority=50)
    send(lanes, "bulk", priority=-100)

    handled.wait_for("bulk")
    assert "urgent" not in handled.ids
    assert lanes("status")[0]["waiting"] == 1

    resumed = lanes("resume", "HIGH")

    assert (resumed["mapping"], states(lanes)["HIGH"]) == ("Enabled", "Enabled")
    send(lanes, "next", priority=50)
    handled.wait_for("urgent", "next")
    actions = [entry["action"] for entry in lanes("audit")]
    assert [action for action in actions if action != "send"] == ["resume", "pause"]


def test_a_sender_that_rings_nothing_is_served_by_the_heartbeat(platform, handled):
    """The rule's message comes back to its queue for 20 seconds at a time, and each return looks at the lanes."""
    (schedule,) = platform.schedules.values()
    platform.client("sqs").send_message(
        QueueUrl=platform.outputs[STACK]["MAINQueueUrl"],
        MessageBody=Message(kind="order.placed", id="silent").to_body(),
        MessageGroupId="silent",
        MessageDeduplicationId="silent",
    )

    (target,) = schedule.settings.queues
    schedule.once()

    handled.wait_for("silent")
    assert (target.group, target.body) == (bell.HEARTBEAT, bell.BODY)
    until(lambda: bell_mapping(platform).counters()["partial"] >= 1)
    assert bell_mapping(platform).counters()["errors"] == 0
