"""An existing queue from which messages are moved to a lane."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.queues.dead_letter_queues import DeadLetterQueueCalls, size_of
from lanes.config.deployment import LaneQueues
from lanes.errors import AwsError, ConfigurationError
from lanes.fault_codes import Cause, cause_of
from lanes.operate.adopt import AdoptedMessage, SourceQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.aws.table.audit import RedriveRecords
    from lanes.config.deployment import Deployment
    from lanes.operate.adopt import Adoption
    from lanes.operate.dead_letters.listing import DeadLetteredMessage

# AWS: 1 to 80 letters, digits, hyphens and underscores, with the end .fifo (API_CreateQueue).
REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")
QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
ACCOUNT = re.compile(r"[0-9]{12}")

STAYS_HIDDEN = timedelta(hours=1)
"""
Visibility timeout of a message without a group until the run ends: each further receive would count towards the
`maxReceiveCount` of its queue.
"""


class AdoptedQueueCalls(DeadLetterQueueCalls):
    """
    A queue in place of the dead-letter queue of a lane; every method raises `AwsError`.

    Args:
        source: the queue.
        lane: name of the lane to which its messages go.
        adoption: how they become messages of the lane.
        deployment: the lanes.
        client: client of SQS.
        redrives: the copies that were sent.
    """

    def __init__(
        self,
        source: SourceQueue,
        *,
        lane: str,
        adoption: Adoption,
        deployment: Deployment,
        client: SQSClient,
        redrives: RedriveRecords | None = None,
    ) -> None:
        queues = LaneQueues(url=deployment.queues[lane].url, dead_letter_url=source.url)
        super().__init__(
            deployment=dataclasses.replace(deployment, queues={**deployment.queues, lane: queues}),
            client=client,
            redrives=redrives,
        )
        self.staying: dict[str, str] = {}
        self._adoption = adoption
        self._lane_url = queues.url
        self._sqs = client
        self._largest: int | None = None

    def receive(
        self, lane: str, *, limit: int, hold: timedelta, wait: bool = True
    ) -> list[DeadLetteredMessage]:
        """Receive up to ten messages; those without a group stay hidden, and are in `staying` with the reason."""
        received = super().receive(lane, limit=limit, hold=hold, wait=wait)
        letters = [self._adoption.adopted(letter) for letter in received]
        without = [letter for letter in letters if not letter.group]
        self.staying |= {letter.message_id: letter.problem for letter in without}
        self.hide(without, STAYS_HIDDEN)
        return list(letters)

    def copy(self, letters: Sequence[DeadLetteredMessage], openings: Mapping[str, str]) -> dict[str, str]:
        """Send messages to the lane; return the reasons of refusals by the message's id."""
        problems = {letter.message_id: self._problem_of(letter) for letter in letters}
        sendable = [letter for letter in letters if not problems[letter.message_id]]
        refused = {message_id: problem for message_id, problem in problems.items() if problem}
        return refused | (super().copy(sendable, openings) if sendable else {})

    def _problem_of(self, letter: DeadLetteredMessage) -> str:
        if isinstance(letter, AdoptedMessage) and letter.problem:
            return letter.problem
        if self._largest is None:
            with aws_errors("GetQueueAttributes"):
                answer = self._sqs.get_queue_attributes(
                    QueueUrl=self._lane_url, AttributeNames=["MaximumMessageSize"]
                )
            self._largest = int(answer["Attributes"]["MaximumMessageSize"])
        # SQS would refuse the whole call for it.
        if (size := size_of(letter)) > self._largest:
            return f"it has {size} bytes with its attributes, and the queue of the lane takes at most {self._largest}"
        return ""


def find_source(client: SQSClient, queue: str, *, deployment: Deployment) -> SourceQueue:
    """
    Find a queue by its name, URL or ARN, and read its settings.

    Raises:
        ConfigurationError: there is no such queue, it is a queue of the lanes, or in another region.
        AwsError: it could not be read.
    """
    asked: Any = _address(queue, region=client.meta.region_name)
    try:
        with aws_errors("GetQueueUrl"):
            url = client.get_queue_url(**asked)["QueueUrl"]
    except AwsError as error:
        if cause_of(error.code) is not Cause.MISSING:
            raise
        problem = f"there is no queue {queue!r} in {client.meta.region_name}; give its name, URL or ARN"
        raise ConfigurationError([problem], source="QUEUE") from error
    _refuse_own(url, deployment)
    with aws_errors("GetQueueAttributes"):
        found: Any = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    policy = json.loads(found.get("RedrivePolicy") or "{}")
    return SourceQueue(
        name=asked["QueueName"],
        url=url,
        arn=found["QueueArn"],
        is_fifo=found.get("FifoQueue") == "true",
        waiting=int(found["ApproximateNumberOfMessages"]),
        in_flight=int(found["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(found["ApproximateNumberOfMessagesDelayed"]),
        max_receive_count=int(policy["maxReceiveCount"]) if "maxReceiveCount" in policy else None,
    )


def _address(queue: str, *, region: str) -> dict[str, str]:
    """Return the parameters of GetQueueUrl for a name, URL or ARN."""
    is_arn = queue.startswith("arn:")
    parts = queue.split(":") if is_arn else queue.rstrip("/").split("/")
    *before, name = parts
    problem = ""
    if is_arn and (
        len(parts) != len(["arn", "aws", "sqs", "region", "account", "name"]) or parts[2] != "sqs"
    ):
        problem = f"{queue!r} is not the ARN of a queue, arn:aws:sqs:REGION:ACCOUNT:NAME"
    elif (parts[3] if is_arn else _region_in(before) or region) != region:
        # By its name alone, the queue of that name in the region of the lanes would be found.
        problem = f"{queue!r} is in another region than the lanes, {region}; SQS moves messages within one"
    elif not QUEUE_NAME.fullmatch(name):
        problem = (
            f"{queue!r} is not the name, URL or ARN of a queue; a name has up to 80 letters, digits, - and _, and that "
            "of a FIFO queue ends in .fifo"
        )
    if problem:
        raise ConfigurationError([problem], source="QUEUE")
    owner = {"QueueOwnerAWSAccountId": before[-1]} if before and ACCOUNT.fullmatch(before[-1]) else {}
    return {"QueueName": name, **owner}


def _region_in(parts: Sequence[str]) -> str:
    """Return the region in the host of a URL, such as sqs.eu-central-1.amazonaws.com; empty if it names none."""
    labels = [label for part in parts for label in part.split(".")]
    return next((label for label in labels if REGION.fullmatch(label)), "")


def _refuse_own(url: str, deployment: Deployment) -> None:
    """Refuse the queues of the lanes; the host of a URL depends on the endpoint that was asked."""
    asked = _account_and_name(url)
    problem = ""
    for lane, queues in deployment.queues.items():
        if _account_and_name(queues.url) == asked:
            problem = f"{asked[-1]} is the queue of lane {lane}; to move its messages use `lanes prioritize`"
        elif _account_and_name(queues.dead_letter_url) == asked:
            problem = f"{asked[-1]} is the dead-letter queue of lane {lane}; use `lanes dead-letters redrive {lane}`"
    if deployment.bell is not None and _account_and_name(deployment.bell) == asked:
        problem = f"{asked[-1]} is the bell of the lanes, and has no messages of yours"
    if problem:
        raise ConfigurationError([problem], source="QUEUE")


def _account_and_name(url: str) -> list[str]:
    return url.rstrip("/").split("/")[-2:]
