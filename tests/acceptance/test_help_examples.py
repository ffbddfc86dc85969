"""Every example in a help runs as it is typed, on a deployment with some work in it."""

import io
import json
import shlex
import zipfile

import pytest

from lanes.aws.runs import DynamoDBRuns
from lanes.cli.main import EXAMPLES
from lanes.runs import Head
from local.deployed import make_client
from local.server import AwsServer
from tests.support.command import COMMAND, Typed
from tests.support.operating import STACK, make_deployment, put_dead_letters

ELSEWHERE = {
    "local up": "runs until Ctrl-C; in tests/local/test_up.py",
    "cdk": "becomes the cdk command; in tests/local/test_launchers.py",
    "local run": "needs `lanes local up`; in tests/local/test_up.py",
    "ui": "serves until Ctrl-C; in tests/ui",
    "work": "runs until Ctrl-C; in tests/cli/test_work.py",
    "schedules list": "needs EventBridge Scheduler; in tests/cli/test_schedules.py",
    "schedules pause": "the same",
    "schedules resume": "the same",
    "schedules run": "the same",
    "scheduled list": "the same",
    "scheduled cancel": "the same",
    "scheduled send-now": "the same",
    "bulk submit": "needs EMR Serverless; in tests/cli/test_bulk.py",
}
"""Verbs whose examples this file can't run."""
ENDS = {
    "--watch": ("--times", "1"),
    "tail": ("--times", "1"),
    "relay": ("--once",),
    "watch": ("--timeout", "100ms"),
}
"""Options that end an example which else runs until Ctrl-C, by a word in it."""
NOT_THERE = {
    "lanes overrides withdraw 3f2a --dry-run": "no override '3f2a' is active",
    "lanes runs watch statements-2026-11 --timeout 2h": "statements-2026-11 has not ended within 100ms",
}
"""Examples that name what this deployment can't have, with the answer to them."""
EXAMPLES_TO_RUN = [
    example for name, examples in EXAMPLES.items() if name not in ELSEWHERE for example in examples
]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Run an example in a folder with its files, against a deployment with its messages; give how it ended."""
    folder = tmp_path_factory.mktemp("examples")
    files = {
        "orders.jsonl": '{"kind": "order.placed", "data": {"order": 7}}\n',
        "load.toml": 'duration = "1m"\n[arrivals.HIGH]\nrate = 1\nservice = "100ms"\n',
        "lanes.toml": '[[lanes]]\nname = "HIGH"\nthreshold = 50\n[[lanes]]\nname = "MAIN"\n[stages.prod]\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    with AwsServer(log_path=folder / "server.log") as server:
        fill(lambda service: make_client(service, server.endpoint_url))
        typed = Typed(server.endpoint_url)
        database = f"sqlite:///{folder / 'app.db'}"
        typed.variables["LANES_OUTBOX_DATABASE"] = database
        assert typed("outbox", "setup").returncode == 0

        def run(words, *more):
            names = {name: str(folder / name) for name in (*files, "waits.svg", "shop")}
            names["postgresql://localhost/shop"] = database
            return typed(*(names.get(word, word) for word in words), *more)

        yield run


def fill(client):
    """Make two stages, their function, a queue of each type, dead letters and a run."""
    deployment = make_deployment(client)
    document = deployment.to_json()
    client("ssm").put_parameter(Name=f"/lanes/{STACK}-prod", Value=document, Type="String")
    for name, attributes in (
        ("orders", {}),
        ("orders.fifo", {"FifoQueue": "true", "ContentBasedDeduplication": "true"}),
    ):
        client("sqs").create_queue(QueueName=name, Attributes=attributes)
    put_dead_letters(client("sqs"), deployment, "MAIN", 2, groups=2)
    runs = DynamoDBRuns(table=deployment.table, client=client("dynamodb"))
    runs.open_run(Head(name="statements-2026-11", chunks=1))
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    role = client("iam").create_role(RoleName="consumer", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", "")
    client("lambda").create_function(
        FunctionName="consumer",
        Runtime="python3.14",
        Role=role,
        Handler="index.handle",
        Code={"ZipFile": code.getvalue()},
        Environment={"Variables": {"LANES_DEPLOYMENT": document}},
    )
    for queues in deployment.queues.values():
        asked = client("sqs").get_queue_attributes(QueueUrl=queues.url, AttributeNames=["QueueArn"])
        client("lambda").create_event_source_mapping(
            EventSourceArn=asked["Attributes"]["QueueArn"],
            FunctionName="consumer",
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )
    client("logs").create_log_group(logGroupName="/aws/lambda/consumer")


@pytest.mark.parametrize("text", EXAMPLES_TO_RUN)
def test_an_example_of_a_help_runs(example, text):
    """It is understood to the last value, whatever it finds; a message that is not there is no fault of the example."""
    words = shlex.split(text)[1:]
    more = next((more for word, more in ENDS.items() if word in words), ())
    if "--dry-run" not in words and asks(words):
        more += ("--yes",)

    done = example(words, *more)

    assert NOT_THERE.get(text, "") in done.stderr
    assert text in NOT_THERE or done.returncode in (0, 3), (done.returncode, done.stdout, done.stderr)


def test_each_verb_is_run_here_or_named():
    """With the place of its test."""
    assert set(ELSEWHERE) < set(EXAMPLES)


def asks(words):
    """Whether the verb of an example asks before it changes something."""
    verb = COMMAND
    for word in words:
        verb = getattr(verb, "commands", {}).get(word, verb)
    return any("--yes" in one.opts for one in verb.params)
