"""The corrected AWS server with the queues and the parameter of a stack, for programs in processes of their own."""

from __future__ import annotations

import json

from lanes.config import EngineName, LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from local.account import USER_KEY, connection_variables
from local.deployed import make_client

STACK = "PriorityLanes"


class LanesOnServer:
    """
    Lanes without a consumer on an AWS server of this machine.

    Args:
        endpoint_url: of the server.
        stack: name of the stack; another one has other queues.
        outbox: settings of `[outbox]`.
        consumer: settings of `[consumer]`.
    """

    def __init__(self, endpoint_url, *, stack=STACK, outbox=None, outbox_table=None, consumer=None):
        self.endpoint_url = endpoint_url
        self.stack = stack
        self.sqs = make_client("sqs", endpoint_url)
        config = LanesConfig.from_dict({"outbox": outbox or {}, "consumer": consumer or {}})
        queues = {lane.name: self._queues(lane.name) for lane in config.lanes}
        bell = None if config.consumer.engine is EngineName.MAPPINGS else self._queue("bell")
        self.deployment = Deployment(
            config=config, queues=queues, table="ledger", outbox=outbox_table, bell=bell
        )
        ssm = make_client("ssm", endpoint_url)
        ssm.put_parameter(
            Name=f"/lanes/{stack}", Value=self.deployment.to_json(), Type="String", Overwrite=True
        )

    def _queues(self, lane):
        return LaneQueues(url=self._queue(lane), dead_letter_url=self._queue(f"{lane}-dead"))

    def _queue(self, name):
        attributes = {
            "FifoQueue": "true",
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
        }
        return self.sqs.create_queue(QueueName=f"{self.stack}-{name}.fifo", Attributes=attributes)["QueueUrl"]

    def variables(self):
        """Environment variables that lead a process here."""
        return connection_variables(self.endpoint_url, USER_KEY)

    def received(self, lane):
        """Take all messages out of a lane; return ids and groups in order."""
        url = self.deployment.queues[lane].url
        taken = []
        while messages := self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages"):
            for message in messages:
                taken.append((json.loads(message["Body"])["id"], message["Attributes"]["MessageGroupId"]))
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def waiting(self, lane):
        """Count the messages of a lane."""
        answer = self.sqs.get_queue_attributes(
            QueueUrl=self.deployment.queues[lane].url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])
