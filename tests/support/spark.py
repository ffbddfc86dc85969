"""One Spark session and one AWS server for all Spark tests of a process; lanes of its own for each test."""

import itertools
import json

import pytest

LANES = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MEDIUM", "threshold": 0}, {"name": "MAIN"}]}
QUEUE = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
NUMBERS = itertools.count()


class DeployedLanes:
    """Lanes on this machine: their deployment document and their messages."""

    def __init__(self, endpoint_url):
        import boto3

        from lanes.config import LanesConfig
        from lanes.config.deployment import Deployment

        self.name = f"stack-{next(NUMBERS)}"
        self.endpoint_url = endpoint_url
        self.sqs = boto3.client("sqs", endpoint_url=endpoint_url)
        config = LanesConfig.from_dict(LANES)
        queues = {lane.name: self._queues(lane.name) for lane in config.lanes}
        self.deployment = Deployment(config=config, queues=queues, table=f"{self.name}-ledger")

    def _queues(self, lane):
        from lanes.config.deployment import LaneQueues

        url, dead_letter_url = (
            self.sqs.create_queue(QueueName=f"{self.name}-{lane}{suffix}.fifo", Attributes=QUEUE)["QueueUrl"]
            for suffix in ("", "-dead")
        )
        return LaneQueues(url=url, dead_letter_url=dead_letter_url)

    def add_stack(self):
        """Add the parameter where producers find these lanes, and give the name of the stack."""
        import boto3

        ssm = boto3.client("ssm", endpoint_url=self.endpoint_url)
        ssm.put_parameter(Name=f"/lanes/{self.name}", Type="String", Value=self.deployment.to_json())
        return self.name

    def options(self, **more):
        """Give the options of a write to these lanes."""
        place = {"deployment": self.deployment.to_json(), "endpointUrl": self.endpoint_url}
        return {**place, "kind": "a.kind", **more}

    def write(self, table, source="lanes", **options):
        """Write a table to these lanes."""
        table.write.format(source).mode("append").options(**self.options(**options)).save()

    def take(self, lane):
        """Give all messages of a lane in the order of their delivery, and delete them."""
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
    """Start AWS in a process of its own."""
    from local.server import AwsServer

    with AwsServer(log_path=tmp_path_factory.mktemp("aws") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def spark():
    """Run two tasks at once, each up to four times."""
    from pyspark import util

    from spark_jobs import LanesDataSource
    from spark_jobs.session import open_session

    connect = util.local_connect_and_auth

    def connect_until_read(*arguments):
        """Connect, and close the socket with the file that is read: Spark leaves it to the garbage collector."""
        file, connection = connect(*arguments)
        connection.close()
        return file, connection

    util.local_connect_and_auth = connect_until_read
    session = open_session("tests", master="local[2,4]")
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(LanesDataSource)
    yield session
    session.stop()
    util.local_connect_and_auth = connect


@pytest.fixture
def lanes(aws):
    """Give empty lanes."""
    return DeployedLanes(aws.endpoint_url)


@pytest.fixture
def more_lanes(aws):
    """Give other empty lanes, which have not seen the messages of the first."""
    return DeployedLanes(aws.endpoint_url)
