"""An app that knows nothing of this project, deployed for real by the `cdk` command, and run."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import boto3
import pytest

from local.account import function_key
from local.deploy import CdkApp, DeployError
from local.deployed import make_client
from local.platform import Platform
from local.server import AwsServer, ServerError, read_receives
from local.state import running
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
APP = Path(__file__).with_name("second_app")


@pytest.fixture(scope="module")
def platform(running_platform):
    """The app in its first stage."""
    running_platform.deploy(CdkApp(directory=APP, stage="first"))
    return running_platform


def _mapping(platform):
    (mapping,) = platform.mappings_of(platform.outputs["SecondApp"]["JobsUrl"].rpartition("/")[2])
    return mapping


def _send(platform, body):
    platform.client("sqs").send_message(
        QueueUrl=platform.outputs["SecondApp"]["JobsUrl"],
        MessageBody=body,
        MessageGroupId="jobs",
        MessageDeduplicationId=body,
    )


def _handled(platform, body):
    table = platform.outputs["SecondApp"]["TableName"]
    answer = platform.client("dynamodb").get_item(TableName=table, Key={"pk": {"S": body}})
    return answer["Item"]["stage"]["S"]


def test_a_message_is_handled_by_the_deployed_function(platform, lines):
    """From SendMessage over the deployed mapping to the deployed code, which reaches AWS on this machine."""
    _send(platform, "one")
    lines.wait_for("job one done")
    mapping = _mapping(platform)
    until(lambda: mapping.counters()["deleted"] == 1)

    assert _handled(platform, "one") == "first"
    assert mapping.settings.concurrency == 2


def test_the_calls_of_the_function_are_told_from_those_of_others(platform, lines):
    """One PutItem is the function's; receives and deletes are the mappings', as are reads of streams."""
    name = function_key(platform.outputs["SecondApp"]["FunctionName"])
    before = platform.calls().get(name, {}).get("dynamodb.PutItem", 0)
    _send(platform, "counted")
    lines.wait_for("job counted done")

    calls = platform.calls()

    assert calls[name] == {"dynamodb.PutItem": before + 1}
    of_queues = {name for name in calls["lanes_mapping"] if name.startswith("sqs.")}
    assert of_queues <= {"sqs.ReceiveMessage", "sqs.DeleteMessageBatch"}


def test_a_second_deploy_is_followed(platform, lines):
    """New variables reach a new process, concurrency and queue settings follow, the table is kept."""
    _send(platform, "early")
    lines.wait_for("job early done")

    platform.deploy(CdkApp(directory=APP, stage="second"))
    _send(platform, "late")
    lines.wait_for("job late done")

    function = platform.functions[platform.outputs["SecondApp"]["FunctionName"]]
    assert (_handled(platform, "early"), _handled(platform, "late")) == ("first", "second")
    assert function.settings.reserved_concurrency == 2
    assert function.settings.variables["STAGE"] == "second"


def test_a_function_can_be_invoked(platform, lines):
    """With an answer at once, later, or not at all; errors of the handler come as on AWS."""
    functions, name = platform.client("lambda"), platform.outputs["SecondApp"]["FunctionName"]
    event = {"Records": [{"body": "invoked"}]}

    answer = functions.invoke(FunctionName=name, Payload=json.dumps(event))
    later = functions.invoke(
        FunctionName=platform.functions[name].settings.arn,
        InvocationType="Event",
        Payload=json.dumps({"Records": [{"body": "invoked later"}]}),
    )
    tried = functions.invoke(FunctionName=name, InvocationType="DryRun")
    failed = functions.invoke(FunctionName=name)

    assert (answer["StatusCode"], json.load(answer["Payload"])) == (200, {"batchItemFailures": []})
    assert _handled(platform, "invoked") == platform.functions[name].settings.variables["STAGE"]
    lines.wait_for("job invoked later done")
    assert (later["StatusCode"], tried["StatusCode"]) == (202, 204)
    assert (failed["FunctionError"], json.load(failed["Payload"])["errorType"]) == ("Unhandled", "KeyError")


ALONE = {
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
    },
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": "alone",
            "Code": {"ZipFile": "def handle(event, context): return event"},
            "Handler": "index.handle",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        },
    },
}


def test_an_invocation_beyond_the_reserved_concurrency_is_throttled(platform):
    """The limit is that of the function, whatever invokes it; a function without a mapping works too."""
    functions, cloudformation = platform.client("lambda"), platform.client("cloudformation")
    cloudformation.create_stack(StackName="Alone", TemplateBody=json.dumps({"Resources": ALONE}))

    echoed = json.load(functions.invoke(FunctionName="alone", Payload=b'{"n": 1}')["Payload"])
    functions.put_function_concurrency(FunctionName="alone", ReservedConcurrentExecutions=0)
    platform.follow_now()
    with pytest.raises(functions.exceptions.TooManyRequestsException) as throttled:
        functions.invoke(FunctionName="alone")
    with pytest.raises(functions.exceptions.ResourceNotFoundException):
        functions.invoke(FunctionName="nothing")

    assert echoed == {"n": 1}
    assert throttled.value.response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"


def test_a_port_in_use_is_told(tmp_path):
    """The message names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ServerError, match=f"port {port} is in use"):
            AwsServer(port=port, log_path=tmp_path / "server.log").start()


@pytest.mark.deep
def test_lanes_local_runs_the_app_of_the_examples_and_leaves_nothing_behind():
    """One JSON line with its two lanes, its alarms and their one action, and an interrupt that ends every process."""
    app = ROOT / "examples" / "own_app"
    command = [sys.executable, "-m", "lanes", "--output", "json", "local", "up", str(app)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            addresses = json.loads(process.stdout.readline())
            assert running(app) == {**addresses["environment"], "LANES_STACK": "Orders"}
            children = _children(process.pid)
            queues = _client("sqs", addresses).list_queues()["QueueUrls"]
            stack = _client("cloudformation", addresses).get_template(StackName="Orders")["TemplateBody"]
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(100)

    assert (addresses["stack"], addresses["lanes"].keys()) == ("Orders", {"URGENT", "REST"})
    assert {*addresses["lanes"].values(), *addresses["dead_letters"].values()} == set(queues)
    kinds = [resource["Type"] for resource in stack["Resources"].values()]
    assert kinds.count("AWS::Lambda::EventSourceMapping") == 2
    alarms = [one["Properties"] for one in stack["Resources"].values() if one["Type"].endswith("::Alarm")]
    calling = [alarm for alarm in alarms if alarm.get("AlarmActions")]
    assert calling
    assert all(alarm["AlarmDescription"].startswith("CRITICAL") for alarm in calling)
    assert children
    assert not [pid for pid in children if _runs(pid)]
    assert status == 0


@pytest.mark.deep
def test_an_app_elsewhere_imports_the_library_by_its_installed_names(tmp_path):
    """
    It has nothing of this checkout on its path, and the dashboard finds the runbook.

    The app says so by its failure, and the error shows what the CDK printed.
    """
    names = "lanes", "lanes_cdk", "lanes_local", "lanes_simulator", "lanes_spark"
    found = "; ".join(f"__import__('importlib.util').util.find_spec('{name}').origin" for name in names)
    sections = (
        "from types import SimpleNamespace\n"
        "from lanes_cdk.alarms.rule import Section, sections\n"
        "assert all(sections(SimpleNamespace(section=section) for section in Section))\n"
    )
    (tmp_path / "app.py").write_text(f"{found}\n{sections}raise SystemExit('all of it is there')\n")
    (tmp_path / "cdk.json").write_text(json.dumps({"app": "python3 app.py"}))

    with pytest.raises(DeployError, match="all of it is there"):
        Platform(app=CdkApp(directory=tmp_path), build_directory=tmp_path / "build").start()


def _client(service, addresses):
    variables = addresses["environment"]
    return boto3.client(
        service,
        endpoint_url=addresses["endpoint_url"],
        region_name=addresses["region"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def _children(pid):
    found = [one.parent.name for one in Path("/proc").glob("[0-9]*/stat") if _parent(one) == str(pid)]
    return [int(one) for one in found]


def _parent(stat):
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[1]
    return None


def _runs(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_receives_are_read_as_the_queue_answered_them(tmp_path):
    """Each time, with the count of that time."""
    path = tmp_path / "receives.jsonl"
    with AwsServer(log_path=tmp_path / "server.log", receives_path=path) as server:
        sqs = make_client("sqs", server.endpoint_url)
        url = sqs.create_queue(QueueName="main.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        body = '{"id": "größer"}'
        sent = sqs.send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId="1"
        )
        for _ in range(2):
            sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)

    first, second = read_receives(path)

    expected = {"queue": "main.fifo", "group": "g", "body": body, "sequence": int(sent["SequenceNumber"])}
    assert asdict(first) == expected | {"receive_count": 1, "sent_at": first.sent_at}
    assert second == replace(first, receive_count=2)
