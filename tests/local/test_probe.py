"""`lanes probe run` against AWS on this machine: it names the variant that runs there, from measurements alone."""

import json
import signal

import pytest

from lanes.probe.profile import read_profile
from lanes.probe.words import findings
from local.platform import Platform
from local.unknowns import unknowns_of
from tests.support.command import Command

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

INTERRUPTED = 130


class Probe:
    """The command in a process of its own."""

    def __init__(self, platform, folder):
        self.platform = platform
        self.profile = folder / "aws-profile.toml"

    def start(self, *arguments):
        command = Command(self.platform.endpoint_url)
        return command.start("probe", "run", "--quick", "--yes", "--out", str(self.profile), *arguments)

    def run(self, *experiments):
        """Run it to its end; return the assumptions by section."""
        process = self.start(*(item for name in experiments for item in ("--only", name)))
        _, said = process.communicate()
        assert process.returncode == 0, said
        return {one.section: one.assumption for one in findings(read_profile(self.profile))}

    def left(self):
        """Return the resources that a stack would charge for."""
        client = self.platform.client
        return [
            *client("cloudformation").describe_stacks()["Stacks"],
            *client("sqs").list_queues().get("QueueUrls", []),
            *client("lambda").list_functions()["Functions"],
            *client("dynamodb").list_tables()["TableNames"],
            *client("logs").describe_log_groups()["logGroups"],
        ]


@pytest.fixture
def probe(request, tmp_path):
    """A probe of a platform with these variants."""
    unknowns = unknowns_of(request.param)
    with Platform(build_directory=tmp_path / "build", unknowns=unknowns) as platform:
        yield Probe(platform, tmp_path)


OTHERS = [
    "blocked groups not counted",
    "counts 5 s old",
    "groups in turn",
    "short polls miss 1 in 3",
]


@pytest.mark.parametrize("probe", [OTHERS], indirect=True)
def test_the_other_variants_are_named(probe):
    """All at once, with a retry of throttled batches at most every 2 s, the default of the simulator."""
    found = probe.run()

    assert found == {
        "throttle": "as given",
        "winner": "as given",
        "pollers": "as given",
        "order": "groups in turn",
        "counts": "counts 5 s old",
        "short_polls": "short polls miss 1 in 3",
        "calls": "",
        "kill": "",
        "bell": "",
    }
    profile = read_profile(probe.profile)
    assert profile.counts.blocked_counted is False
    assert profile.bell.peak <= profile.bell.groups
    assert profile.throttle.receives == 1
    events = [
        json.loads(line) for line in probe.profile.with_suffix(".events.jsonl").read_text().splitlines()
    ]
    assert {event["run"].partition("/")[0] for event in events} >= {"throttle", "polls", "kill", "probe"}
    page = probe.profile.with_suffix(".html").read_text()
    assert page.count("<svg") == len(found)
    assert probe.left() == []


@pytest.mark.parametrize("probe", [["backoff up to 0.3 s"]], indirect=True)
def test_the_first_variants_are_named(probe):
    """Retries at most every 0.3 s, oldest group first, exact counts, polls that find their messages."""
    found = probe.run("throttle", "order", "counts", "polls")

    assert found == {
        "throttle": "backoff up to 0.3 s",
        "order": "as given",
        "counts": "as given",
        "short_polls": "as given",
    }
    assert read_profile(probe.profile).counts.blocked_counted is True


@pytest.mark.parametrize("probe", [["throttled batches dropped", "two pollers, slow ramp"]], indirect=True)
def test_dropped_batches_and_few_pollers_are_named(probe):
    """After a probe that was interrupted, which leaves no stack."""
    process = probe.start("--only", "throttle")
    while "throttle: about" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert (process.returncode, probe.left()) == (INTERRUPTED, [])

    assert probe.run("throttle", "pollers") == {
        "throttle": "throttled batches dropped",
        "pollers": "two pollers, slow ramp",
    }
    assert read_profile(probe.profile).throttle.receives >= 2
