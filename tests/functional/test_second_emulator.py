"""The constructs on MiniStack, so that our own emulator is not the only judge of our code."""

import io
import json
import os
import socket
import subprocess
import sys
import venv
import zipfile
from collections import defaultdict
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import boto3
import pytest
from aws_cdk import Stack

from cdk import LaneQueues, LanesParameter, Ledger, PriorityConsumer, consumer_code
from lanes import Producer
from lanes.config import LanesConfig
from local.account import HOST, REGION, without_aws_settings
from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, new_app
from tests.support.waiting import until

MINISTACK = "ministack==1.5.33"
STACK = "Second"
ATTEMPTS = 2
BUCKET = "assets"
MESSAGES = 23
PRIORITIES = (-100, 0, 50)
FAULTS = {3: "once", 5: "always"}


@pytest.fixture
def ministack(tmp_path):
    """A Python with MiniStack in an environment of its own, since it needs another botocore."""
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    venv.create(environment)
    # Where packages come from a mirror that only pip knows, uv fails.
    for installer in (["uv", "pip", "install", "--python", python], ["pip", "--python", python, "install"]):
        done = subprocess.run(
            [sys.executable, "-m", *installer, "--quiet", MINISTACK, "boto3"],
            env={
                "UV_HTTP_TIMEOUT": "10",
                "PIP_DEFAULT_TIMEOUT": "10",
                **os.environ,
                "UV_CACHE_DIR": str(tmp_path / "cache"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.returncode:
            return python
    pytest.skip(f"{MINISTACK} can't be installed here: {done.stderr.strip()}")


@contextmanager
def running(python, folder):
    """Run MiniStack on a free port and give its address."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "MINISTACK_REGION": REGION,
    }
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    home = {"HOME": str(folder), "TMPDIR": str(folder), "S3_DATA_DIR": str(folder / "s3")}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, ROOT / "local" / "guarded_process.py", python, "-m", "ministack"],
            env=without_aws_settings(os.environ) | settings | keys | home,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: _listens(port), why="MiniStack never listened")
        yield f"http://{HOST}:{port}"
    finally:
        process.stdin.close()
        process.wait()


def _listens(port):
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


def synthesised():
    """Give the template of the constructs, and the folder of each asset by its key."""
    app = new_app(**{"aws:cdk:bundling-stacks": ["**"]})
    stack = Stack(app, STACK)
    queues = LaneQueues(
        stack, "Lanes", config=LanesConfig.from_dict({"consumer": {"max_attempts": ATTEMPTS}})
    )
    ledger = Ledger(stack, "Ledger")
    PriorityConsumer(stack, "Consumer", queues=queues, ledger=ledger, code=consumer_code(FUNCTION_FOLDER))
    LanesParameter(stack, "Deployment", queues=queues, ledger=ledger)
    folder = Path(app.synth().directory)
    files = json.loads((folder / f"{STACK}.assets.json").read_text())["files"].values()
    keys = {
        destination["objectKey"]: folder / file["source"]["path"]
        for file in files
        for destination in file["destinations"].values()
    }
    return json.loads((folder / f"{STACK}.template.json").read_text()), keys


def deploy(client):
    """Publish the asset as `cdk deploy` does, in one bucket, and create the stack from the template."""
    template, keys = synthesised()
    s3, cloudformation = client("s3"), client("cloudformation")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    for resource in template["Resources"].values():
        code = resource["Properties"].get("Code", {})
        if "S3Key" in code:
            code["S3Bucket"] = BUCKET
            s3.put_object(Bucket=BUCKET, Key=code["S3Key"], Body=_archive(keys[code["S3Key"]]))
    # An account that was bootstrapped has this parameter in its store.
    template["Parameters"] = {"BootstrapVersion": {"Type": "String", "Default": "21"}}
    cloudformation.create_stack(
        StackName=STACK, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"]
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})


def _archive(folder):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in sorted(folder.rglob("*")):
            written.write(path, path.relative_to(folder))
    return archive.getvalue()


def resource_steps(logs):
    """Read the lines that the sample application prints at each use of its resource."""
    groups = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
    pages = (
        page
        for name in groups
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=name)
    )
    found = [
        json.loads(one["message"])
        for page in pages
        for one in page["events"]
        if '"resource"' in one["message"]
    ]
    return sorted(found, key=itemgetter("at"))


def _finished(steps):
    return [one["id"] for one in steps if one["resource"] == "finished"]


def _received(sqs, url):
    return [message["Body"] for message in sqs.receive_message(QueueUrl=url).get("Messages", [])]


def sent(producer):
    """Send to every lane, several groups each; return the ids by lane and group, in order."""
    order = defaultdict(list)
    for number in range(MESSAGES):
        priority, group = PRIORITIES[number % 3], f"g{number % 4}"
        producer.send(
            "order.placed", {"fault": FAULTS.get(number)}, id=str(number), group=group, priority=priority
        )
        order[priority, group].append(str(number))
    return order


@pytest.mark.nightly
def test_the_constructs_deploy_unchanged_to_ministack_and_handle_messages(ministack, tmp_path):
    """Each message is done once and in the order of its group; one that always fails is a dead letter."""
    with running(ministack, tmp_path) as url:
        session = boto3.Session("test", "test", region_name=REGION)
        deploy(lambda service: session.client(service, endpoint_url=url))
        producer = Producer.from_stack(STACK, endpoint_url=url, session=session, source="orders")
        order = sent(producer)
        sqs, logs = (session.client(service, endpoint_url=url) for service in ("sqs", "logs"))

        dead = []
        until(lambda: dead.extend(_received(sqs, producer.deployment.queues["HIGH"].dead_letter_url)) or dead)
        until(lambda: len(_finished(resource_steps(logs))) >= MESSAGES - 1)
        steps = resource_steps(logs)

    done = _finished(steps)
    refused = [(one["id"], one["attempt"]) for one in steps if one["resource"] == "refused"]
    assert sorted(map(int, done)) == [number for number in range(MESSAGES) if number != 5]
    assert sorted(refused) == [("3", 1), ("5", 1), ("5", 2)]
    assert [json.loads(body)["id"] for body in dead] == ["5"]
    for ids in order.values():
        assert [one for one in done if one in ids] == [one for one in ids if one != "5"]
