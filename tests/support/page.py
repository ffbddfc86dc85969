"""Parts of the page's tests: lanes with mappings and an outbox on a server, `lanes ui` as a process, a browser."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import io
import json
import os
import shutil
import signal
import sys
import time
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lanes.aws.runs import DynamoDBRuns
from lanes.outbox import SqlOutbox
from lanes.runs import End, Ends, Head
from local.deployed import make_client
from tests.support.command import Command
from tests.support.operating import STACK, drain, make_deployment
from tests.support.outbox import DynamoDBSubject

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
AXE = Path(sys.prefix, "browser", "axe.min.js")
OWN_BROWSER = Path(sys.prefix, "bin", "chromium")


def find_browser():
    """
    Give the program of the browser: the pinned one, or one of this machine; None where there is none.

    `.ci/set-up` unpacks the pinned one where it runs, on Linux with an x86 processor.
    """
    if OWN_BROWSER.exists():
        return str(OWN_BROWSER)
    mac = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return next(filter(None, map(shutil.which, BROWSERS)), str(mac) if mac.exists() else None)


class Scene:
    """
    Lanes with a function that never runs, so that a test alone changes them.

    Args:
        server: answers for AWS.
    """

    def __init__(self, server):
        self.endpoint_url = server.endpoint_url
        self._server = server
        made = make_deployment(self.client)
        self.outbox = DynamoDBSubject(self.client("dynamodb"), f"{STACK}-outbox")
        self.deployment = dataclasses.replace(made, outbox=self.outbox.name)
        self.client("ssm").put_parameter(
            Name=f"/lanes/{STACK}", Value=self.deployment.to_json(), Type="String", Overwrite=True
        )
        self._add_function()

    def client(self, service):
        """Return a client of the server."""
        return make_client(service, self.endpoint_url)

    @contextlib.contextmanager
    def frozen(self):
        """Answer no call meanwhile."""
        number = self._server._process.pid
        os.kill(number, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(number, signal.SIGCONT)

    def _add_function(self):
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("handler.py", "def lambda_handler(event, context): pass")
        functions = self.client("lambda")
        role = self.client("iam").create_role(RoleName="consumer", AssumeRolePolicyDocument="{}")["Role"][
            "Arn"
        ]
        functions.create_function(
            FunctionName="consumer",
            Runtime="python3.12",
            Role=role,
            Handler="handler.lambda_handler",
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": {"POWERTOOLS_SERVICE_NAME": STACK}},
        )
        for lane in self.deployment.config.lanes:
            functions.create_event_source_mapping(
                EventSourceArn=self._arn(self.deployment.queues[lane.name].url),
                FunctionName="consumer",
                BatchSize=lane.batch_size,
                FunctionResponseTypes=["ReportBatchItemFailures"],
                ScalingConfig={"MaximumConcurrency": lane.maximum_concurrency},
            )

    def _arn(self, url):
        answer = self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return answer["Attributes"]["QueueArn"]

    def empty(self, *lanes):
        """Take everything out of the queues of lanes, all of them without a name."""
        for name in lanes or self.deployment.queues:
            queues = self.deployment.queues[name]
            for url in (queues.url, queues.dead_letter_url):
                drain(self.client("sqs"), url)

    def send(self, lane, count, *, prefix):
        """Put messages into a lane's queue."""
        sqs = self.client("sqs")
        for start in range(0, count, 10):
            sqs.send_message_batch(
                QueueUrl=self.deployment.queues[lane].url,
                Entries=[
                    {
                        "Id": str(number),
                        "MessageBody": "{}",
                        "MessageGroupId": f"{prefix}-{number}",
                        "MessageDeduplicationId": f"{prefix}-{number}",
                    }
                    for number in range(start, min(start + 10, count))
                ],
            )

    def follow(self, name, *, total, **ends):
        """Open and seal a run of so many messages, and give the first ones of them these ends."""
        table = DynamoDBRuns(table=self.deployment.table, client=self.client("dynamodb"))
        head = table.open_run(Head(name=name, chunks=1))
        members = [number.to_bytes(8, "big") for number in range(total)]
        table.fix_members(name, total=total, members="all")
        table.seal_chunk(head.mark, 0, frozenset(members))
        table.sealed(name)
        for number, end in enumerate(end for end, count in ends.items() for _ in range(count)):
            self.end(name, end, number)

    def end(self, name, end, number):
        """Give the message of a number an end in its run."""
        table = DynamoDBRuns(table=self.deployment.table, client=self.client("dynamodb"))
        mark = table.head(name).mark
        Ends(table=table, announce=None).climb(
            mark, 0, table.add_end(mark, 0, End(end), number.to_bytes(8, "big"))
        )

    def write(self, kind, count, *, group=None, priority=0, prefix=None):
        """Put entries into the outbox; `group` makes one of a number."""
        outbox = SqlOutbox(config=self.deployment.config, source="shop")
        self.outbox.write(
            *(
                outbox.prepare(
                    kind,
                    {"n": number},
                    id=f"{prefix or kind}-{number}",
                    group=None if group is None else group(number),
                    priority=priority,
                )
                for number in range(count)
            )
        )

    def count(self, url):
        """Count all messages of a queue."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(value) for value in answer["Attributes"].values())

    def mapping_states(self):
        """Return the state of each mapping, by lane."""
        by_arn = {
            one["EventSourceArn"]: one["State"]
            for one in self.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        }
        return {name: by_arn[self._arn(queues.url)] for name, queues in self.deployment.queues.items()}

    def log(self, *lines):
        """Write events or plain lines into the function's log, so many seconds from now each."""
        logs = self.client("logs")
        group, stream = "/aws/lambda/consumer", "one"
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            logs.create_log_group(logGroupName=group)
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
        now = time.time()
        events = [
            {
                "timestamp": int((now + at) * 1000),
                "message": line if isinstance(line, str) else json.dumps({"level": "INFO", **line}),
            }
            for at, line in lines
        ]
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)

    def figures(self, lane, minutes, *, ahead=0):
        """Return CloudWatch figures of a lane by metric: of so many minutes to come, then of those before."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        queue = {"Name": "QueueName", "Value": self.deployment.queues[lane].url.rpartition("/")[2]}
        own = [{"Name": "lane", "Value": lane}, {"Name": "service", "Value": STACK}]
        data = {"AWS/SQS": [], "PriorityLanes": []}
        for ago, values in enumerate(minutes, start=1 - ahead):
            for metric, value in values.items():
                is_sqs = metric.startswith(("Approximate", "NumberOf"))
                data["AWS/SQS" if is_sqs else "PriorityLanes"].append(
                    {
                        "MetricName": metric,
                        "Timestamp": now - timedelta(minutes=ago),
                        "Value": float(value),
                        "Dimensions": [queue] if is_sqs else own,
                    }
                )
        cloudwatch = self.client("cloudwatch")
        for namespace, items in data.items():
            for start in range(0, len(items), 500):
                cloudwatch.put_metric_data(Namespace=namespace, MetricData=items[start : start + 500])


class PageProcess:
    """
    `lanes ui` as an operator starts it, while the context lasts.

    Args:
        scene: where the lanes are.
        arguments: of the verb.
        stage: of the lanes; none for the usual one.
    """

    def __init__(self, scene, *arguments, stage=None):
        self._arguments = [*(("--stage", stage) if stage else ()), "ui", *arguments]
        self._command = Command(scene.endpoint_url)
        self.variables = self._command.variables

    def __enter__(self):
        self.process = self._command.start("--output", "json", *self._arguments)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.announced = json.loads(line)
        self.url = self.announced["url"]
        self.base, _, self.token = self.url.partition("#token=")
        return self

    def __exit__(self, *_details):
        self.talk = self.end()[1]

    def end(self):
        """Interrupt the process; return its status and its standard error."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, talk = self.process.communicate(timeout=60)
        return self.process.returncode, talk

    def ask(self, name, fields=None, **headers):
        """Ask as the page's scripts do, without a browser; give the status and the document."""
        answer, body = self.request(
            "POST", f"/api/{name}", json.dumps(fields or {}), **{"X-Lanes-Token": self.token, **headers}
        )
        return answer.status, json.loads(body)

    def request(self, method, path, body=None, **headers):
        """Send one request unchanged; return the answer and its body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.announced["port"], timeout=60)
        try:
            given = {"Content-Type": "application/json", **headers}
            connection.request(method, path, body, {name: value for name, value in given.items() if value})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()
