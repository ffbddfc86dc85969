"""`lanes probe run` against AWS on this machine: it finds the behaviour that runs there, from measurements alone."""

import json
import signal
from datetime import timedelta

import pytest

from lanes.mapping.undocumented import ThrottleBackoff
from lanes.probe.profile import SECTIONS, read_profile
from lanes.testing.fifo.settings import GroupOrder
from local.platform import Platform
from simulator.parameters import Unknowns
from tests.support.command import Command

pytestmark = pytest.mark.timeout(900)
INTERRUPTED = 130
RETRIED = Unknowns(
    backoff=ThrottleBackoff(longest=timedelta(seconds=2)), group_order=GroupOrder.BACK, missed_polls=0.1
)
DROPPED = Unknowns(backoff=ThrottleBackoff(retries=False), group_order=GroupOrder.TURN, missed_polls=1 / 3)


def start(platform, out, *arguments):
    """Start `lanes probe run` with few repetitions."""
    command = Command(platform.endpoint_url)
    return command.start("probe", "run", "--quick", "--yes", "--out", str(out), *arguments)


def left(platform):
    """Return the resources that a stack would charge for."""
    client = platform.client
    return [
        *client("cloudformation").describe_stacks()["Stacks"],
        *client("sqs").list_queues().get("QueueUrls", []),
        *client("lambda").list_functions()["Functions"],
        *client("dynamodb").list_tables()["TableNames"],
        *client("logs").describe_log_groups()["logGroups"],
    ]


@pytest.mark.parametrize(
    "unknowns",
    [
        pytest.param(RETRIED, id="retried", marks=pytest.mark.deep),
        pytest.param(DROPPED, id="dropped", marks=pytest.mark.nightly),
    ],
)
def test_the_behaviour_of_the_platform_is_found(tmp_path, unknowns):
    """By every experiment; the stack is gone after that."""
    out = tmp_path / "aws-profile.toml"
    with Platform(build_directory=tmp_path / "build", unknowns=unknowns) as platform:
        process = start(platform, out)
        _, said = process.communicate()
        assert process.returncode == 0, said
        assert left(platform) == []

    found = read_profile(out).sections
    assert found.keys() == SECTIONS.keys()
    assert found["throttle"]["retried"] == unknowns.backoff.retries
    assert found["throttle"]["receives"] == (1 if unknowns.backoff.retries else 2)
    if unknowns.backoff.retries:
        # Of so few waits, some below the longest: `high` holds it in 19 of 20 probes, and a busy machine is later.
        assert 0.7 < found["throttle"]["longest_wait"].high < 5
    assert found["order"]["next"] == unknowns.group_order
    # Chance decides each of the 300 polls: one run in 20 is outside its own interval, and one in 100,000 outside this.
    assert found["polls"]["missed"].typical == pytest.approx(unknowns.missed_polls, abs=0.12)
    assert found["bell"]["peak"] <= found["bell"]["groups"] == 4
    events = [json.loads(line) for line in out.with_suffix(".events.jsonl").read_text().splitlines()]
    assert {event["run"].partition("/")[0] for event in events} == {"probe", *SECTIONS}


@pytest.mark.deep
def test_an_interrupted_probe_leaves_no_stack(tmp_path):
    """In the middle of an experiment."""
    with Platform(build_directory=tmp_path / "build") as platform:
        process = start(platform, tmp_path / "aws-profile.toml", "--only", "throttle")
        while "throttle: about" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()

        assert (process.returncode, left(platform)) == (INTERRUPTED, [])
