"""One Spark session and one AWS server for all Spark tests; lanes of its own for each test."""

import itertools
import json

import boto3
import pytest

from lanes.config import LanesConfig
from lanes.deployment import Deployment, LaneQueues
from local.server import AwsServer
from spark_jobs import LanesDataSource
from spark_jobs.session import open_session

LANES = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MEDIUM", "threshold": 0}, {"name": "MAIN"}]}
QUEUE = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


class DeployedLanes:
    """Lanes on this machine: where they are, and what is in them."""

    def __init__(self, name, endpoint_url):
        self.name = name
        self.endpoint_url = endpoint_url
        self.sqs = boto3.client("sqs", endpoint_url=endpoint_url)
        config = LanesConfig.from_dict(LANES)
        queues = {lane.name: self._queues(lane.name) for lane in config.lanes}
        self.deployment = Deployment(config=config, queues=queues, table=f"{name}-ledger")

    def _queues(self, lane):
        url, dead_letter_url = (
            self.sqs.create_queue(QueueName=f"{self.name}-{lane}{suffix}.fifo", Attributes=QUEUE)["QueueUrl"]
            for suffix in ("", "-dead")
        )
        return LaneQueues(url=url, dead_letter_url=dead_letter_url)

    def add_stack(self):
        """Leave the parameter from which producers find these lanes; gives the stack's name."""
        ssm = boto3.client("ssm", endpoint_url=self.endpoint_url)
        ssm.put_parameter(Name=f"/lanes/{self.name}", Type="String", Value=self.deployment.to_json())
        return self.name

    def write(self, table, source="lanes", **options):
        """Write a table to these lanes."""
        given = {"deployment": self.deployment.to_json(), "endpointUrl": self.endpoint_url, "kind": "a.kind"}
        table.write.format(source).mode("append").options(**(given | options)).save()

    def take(self, lane):
        """Give all messages of a lane, in the order in which they come, and delete them."""
        url, taken = self.deployment.queues[lane].url, []
        while True:
            answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
            for message in answer.get("Messages", []):
                taken.append((message["Attributes"]["MessageGroupId"], json.loads(message["Body"])))
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if "Messages" not in answer:
                return taken

    def waiting(self):
        """Give the number of messages in all lanes."""
        return sum(
            int(
                self.sqs.get_queue_attributes(
                    QueueUrl=queues.url, AttributeNames=["ApproximateNumberOfMessages"]
                )["Attributes"]["ApproximateNumberOfMessages"]
            )
            for queues in self.deployment.queues.values()
        )


@pytest.fixture(scope="session")
def aws(tmp_path_factory):
    """AWS in a process of its own."""
    with AwsServer(log_path=tmp_path_factory.mktemp("aws") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def spark():
    """Two tasks at once, each tried up to four times."""
    session = open_session("tests", master="local[2,4]")
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(LanesDataSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _names():
    return (f"stack-{number}" for number in itertools.count())


@pytest.fixture
def lanes(aws, _names):
    """Empty lanes for one test."""
    return DeployedLanes(next(_names), aws.endpoint_url)


@pytest.fixture
def more_lanes(aws, _names):
    """Other empty lanes, which know nothing of what the first were sent."""
    return DeployedLanes(next(_names), aws.endpoint_url)
