"""What `python -m local up` tells of what runs."""

import argparse
import io
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from local.account import connection_variables
from local.deploy import CdkApp
from local.deployed import make_client
from local.unknowns import unknowns_of, variant_names
from local.up import FunctionTroubles, _deploy_lines, _explain, add_arguments, describe

FIFO = {"FifoQueue": "true"}


@dataclass
class Deployed:
    """A platform after its deploy, as far as its addresses go."""

    endpoint_url: str
    outputs: dict = field(default_factory=dict)
    mappings: dict = field(default_factory=dict)

    def variables(self):
        return connection_variables(self.endpoint_url)

    def client(self, service):
        return make_client(service, self.endpoint_url)


@pytest.fixture(scope="module")
def queue(server):
    """A queue with its dead-letter queue."""
    sqs = make_client("sqs", server.endpoint_url)
    for name in ("up.fifo", "up-dead.fifo"):
        sqs.create_queue(QueueName=name, Attributes=FIFO)
    # What CloudFormation hands out names the host of the real SQS.
    return LaneQueues(
        url="https://sqs.eu-central-1.amazonaws.com/123456789012/up.fifo",
        dead_letter_url="https://sqs.eu-central-1.amazonaws.com/123456789012/up-dead.fifo",
    )


def test_lanes_of_an_own_stack_are_found_by_its_name(server, queue):
    """Its stack need not name the parameter among its outputs; the lanes command is led to it."""
    config = LanesConfig.from_dict({"lanes": [{"name": "ALL"}]})
    document = Deployment(config=config, queues={"ALL": queue}, table="up-ledger").to_json()
    platform = Deployed(server.endpoint_url, outputs={"Other": {}, "Up": {}})
    platform.client("ssm").put_parameter(Name="/lanes/Up", Value=document, Type="String")

    told = describe(platform)
    text = _explain(told, CdkApp(directory=Path("/an/app")))

    assert (told["stack"], told["table"]) == ("Up", "up-ledger")
    assert told["lanes"]["ALL"] == f"{server.endpoint_url}/123456789012/up.fifo"
    assert told["dead_letters"]["ALL"] == f"{server.endpoint_url}/123456789012/up-dead.fifo"
    assert "\n  export LANES_STACK=Up\n" in text
    assert " cdk deploy " in text
    assert "add --endpoint-url" in text


def test_the_deploy_lines_leave_the_shell_as_it_was(tmp_path, monkeypatch):
    """They are pasted into the shell in which lanes runs next, which must keep its own packages."""
    fake = tmp_path / "cdk"
    fake.write_text('#!/bin/sh\necho "cdk $1 with $PYTHONPATH"\n')
    fake.chmod(0o755)
    variables = {"PATH": str(tmp_path), "PYTHONPATH": "/installed/names"}
    monkeypatch.setattr("local.up.command_variables", lambda _app: dict(variables))
    lines = [*_deploy_lines(CdkApp(directory=tmp_path)), 'echo "lanes with ${PYTHONPATH-none}"']

    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join(lines)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["cdk deploy with /installed/names", "lanes with none"]


def test_an_app_without_lanes_has_its_queues_by_their_names(server, queue):
    """And no stack to lead to."""
    platform = Deployed(server.endpoint_url, outputs={"Another": {}}, mappings={"up.fifo": None})

    told = describe(platform)

    assert told["lanes"] == {"up.fifo": f"{server.endpoint_url}/123456789012/up.fifo"}
    assert "stack" not in told
    assert "LANES_STACK" not in _explain(told, CdkApp(directory=Path("/an/app")))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "[ERROR] Runtime.ImportModuleError: Unable to import module 'handler': No module named 'x'\rTraceback",
            "Runtime.ImportModuleError: Unable to import module 'handler': No module named 'x'",
        ),
        ("RequestId: 7 Error: Runtime exited with status -9", "Runtime exited with status -9"),
        ("RequestId: 7 Error: Task timed out after 30.00 seconds", "Task timed out after 30.00 seconds"),
    ],
)
def test_a_function_in_trouble_is_told_once(line, told):
    """With the file that has the rest."""
    stream = io.StringIO()
    tell = FunctionTroubles(stream)

    for _ in range(2):
        tell("Orders", line)
    tell("Orders", "shipping order 7")

    said, where = stream.getvalue().splitlines()
    assert said == f"Orders: {told}"
    assert where.endswith("build/local/logs/Orders.log")


def test_variants_are_those_of_the_simulator_that_this_machine_can_show():
    """Not latencies and noise; an unknown one is refused."""
    names = variant_names()

    assert {"backoff up to 10 s", "throttled batches dropped", "two pollers, slow ramp"} <= {*names}
    assert {"counts 5 s old", "groups in turn", "short polls miss 1 in 3"} <= {*names}
    assert not {"calls of 25 ms, spread", "counts wrong by a third", "receives of 25 ms"} & {*names}
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--variant", "counts 6 s old"])


def test_variants_are_combined():
    """Each changes its own part."""
    unknowns = unknowns_of(["counts 5 s old", "groups in turn", "throttled batches dropped"])

    assert (unknowns.stale, unknowns.group_order, unknowns.backoff.retries) == (5.0, "turn", False)
