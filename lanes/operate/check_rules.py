"""The rules of a check: what queues, mappings, bell and function must be like, with advice."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lanes import bell
from lanes.config import MAX_RECEIVES
from lanes.consumer.outcome import outage_floor, receive_floor
from lanes.operate.audit import DONE
from lanes.operate.pause import DISABLED, ENABLED, PAUSE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.config.deployment import Deployment
    from lanes.operate.audit import AuditEntry
    from lanes.operate.pause import LaneMapping, Mappings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionState:
    """
    A deployed function; without `reserved_concurrency` it shares the account's.

    `log_group` is the name of its log group.
    """

    variables: Mapping[str, str]
    reserved_concurrency: int | None
    log_group: str


class DeployedState(Protocol):
    """The deployed resources; every method raises `AwsError`."""

    def queue(self, url: str) -> Mapping[str, str]:
        """Return all attributes of a queue."""

    def queues(self, prefix: str) -> Sequence[str]:
        """Return the URLs of the queues with names that begin so."""

    @property
    def mappings(self) -> Mappings:
        """The event source mappings."""

    def switches(self) -> Sequence[AuditEntry]:
        """Return the pauses and resumes of the audit trail, the latest first."""

    def function(self, arn: str) -> FunctionState:
        """Return a function."""


class Problem(NamedTuple):
    """One problem: a code that stays the same, its description and the next step."""

    code: str
    text: str
    advice: str


Problems = list[Problem]

DEPLOY = "deploy the stack again: lanes cdk deploy"
RESCUE = 'move them to a lane: docs/how-to/deploy.md, "Rescue the messages of a removed lane"'


def lane_mapping_problems(lane: Lane, mapping: LaneMapping) -> Problems:
    """Compare the mapping of a lane with the deployment document."""
    paused = Problem(
        "paused", "it is paused: it receives no message of the lane", f"lanes resume {lane.name}"
    )
    return mapping_problems(
        mapping, batch_size=lane.batch_size, most=lane.maximum_concurrency, disabled=paused
    )


def bell_mapping_problems(config: LanesConfig, mapping: LaneMapping) -> Problems:
    """Compare the mapping of the bell with the deployment document."""
    enable = f"aws lambda update-event-source-mapping --uuid {mapping.uuid} --enabled"
    return mapping_problems(
        mapping,
        batch_size=1,
        most=bell.maximum_concurrency(config.consumer.reserved_concurrency),
        disabled=Problem(
            "disabled", "it is disabled: no invocation starts, and all lanes stand still", enable
        ),
    )


def other_function_problem(mapping: LaneMapping) -> Problem:
    """Describe a mapping of another function on the queue of a lane."""
    text = (
        f"mapping {mapping.uuid} ({mapping.state}) gives its messages to {mapping.function_name} too; only the "
        "consumer must receive them"
    )
    return Problem("mapping_count", text, _delete(mapping))


def disabled_other_mapping(mapping: LaneMapping) -> str:
    """Describe a mapping of another function on the queue of a lane that takes nothing while it is disabled."""
    return (
        f"mapping {mapping.uuid} ({mapping.state}) of {mapping.function_name} takes none of its messages while it is "
        "disabled; delete it when you need no way back"
    )


def foreign_mapping_problems(deployment: Deployment, mappings: Sequence[LaneMapping]) -> Problems:
    """Return the mappings that bring the consumer's function messages of other sources than its lanes."""
    problems = []
    for mapping in _foreign(deployment, mappings):
        if mapping.state == DISABLED:
            continue
        text = (
            f"mapping {mapping.uuid} ({mapping.state}) brings it messages of {_source_of(mapping)}, which is not a "
            "lane: each batch fails"
        )
        advice = _delete(mapping)
        if _is_of_queue(mapping):
            text += ", and SQS moves a message to that queue's dead-letter queue after its last receive"
            advice += (
                "; to have its messages handled, make it a lane or move them to one: docs/how-to/adopt.md"
            )
        problems.append(Problem("foreign_mapping", text, advice))
    return problems


def disabled_foreign_mappings(deployment: Deployment, mappings: Sequence[LaneMapping]) -> list[str]:
    """Describe the mappings of other sources that bring nothing while they are disabled."""
    return [
        f"mapping {mapping.uuid} ({mapping.state}) of {_source_of(mapping)}, which is not a lane, brings it nothing; "
        f"if it were enabled, each batch would fail: {_delete(mapping)}"
        for mapping in _foreign(deployment, mappings)
        if mapping.state == DISABLED
    ]


def _foreign(deployment: Deployment, mappings: Sequence[LaneMapping]) -> list[LaneMapping]:
    return [mapping for mapping in mappings if not deployment.reads(mapping.source_arn)]


def _is_of_queue(mapping: LaneMapping) -> bool:
    return mapping.source_arn.split(":")[2:3] == ["sqs"]


def _source_of(mapping: LaneMapping) -> str:
    if _is_of_queue(mapping):
        return f"the queue {name_of(mapping.source_arn, ':')}"
    return mapping.source_arn or "a source without an ARN"


def _delete(mapping: LaneMapping) -> str:
    return (
        "delete the mapping where it is defined, or with "
        f"`aws lambda delete-event-source-mapping --uuid {mapping.uuid}`"
    )


def pause_problems(lane: Lane, mappings: Sequence[LaneMapping]) -> Problems:
    """Return whether a lane of the pull engine is paused."""
    paused = any(mapping.state == DISABLED for mapping in mappings)
    problem = Problem("paused", "it is paused: no slot receives from it", f"lanes resume {lane.name}")
    return [problem] if paused else []


def resumed_problems(lane: Lane, mappings: Sequence[LaneMapping], switches: Sequence[AuditEntry]) -> Problems:
    """Return whether a lane runs that an operator has paused and not resumed."""
    last = next((entry for entry in switches if entry.target == lane.name and entry.outcome == DONE), None)
    if last is None or last.action != PAUSE or any(mapping.state == DISABLED for mapping in mappings):
        return []
    at = f"{datetime.fromtimestamp(last.at, UTC):%Y-%m-%d %H:%M}Z"
    text = (
        f"{last.who} paused it at {at}, and it runs without `lanes resume`: a deploy that changes its mapping, "
        "or the engine, enables it"
    )
    advice = f"lanes pause {lane.name}; if it is to run, lanes resume {lane.name} after that"
    return [Problem("resumed_by_deploy", text, advice)]


def mapping_problems(mapping: LaneMapping, *, batch_size: int, most: int, disabled: Problem) -> Problems:
    """Compare a mapping with its deployed settings."""
    problems = []
    if mapping.state == DISABLED:
        problems.append(disabled)
    elif mapping.state != ENABLED:
        problems.append(Problem("changing", f"it is {mapping.state}", "wait, then check again"))
    if not mapping.reports_failures:
        text = "ReportBatchItemFailures is not set: returned records would be deleted"
        problems.append(Problem("no_partial_response", text, DEPLOY))
    if mapping.batch_size != batch_size:
        text = f"batch size is {mapping.batch_size}, {batch_size} was deployed"
        problems.append(Problem("batch_size_differs", text, DEPLOY))
    if mapping.maximum_concurrency != most:
        text = f"maximum concurrency is {mapping.maximum_concurrency}, {most} was deployed"
        problems.append(Problem("maximum_concurrency_differs", text, DEPLOY))
    return problems


def bell_problems(config: LanesConfig, queue: Mapping[str, str]) -> Problems:
    """Compare the bell's queue with the requirements of its rings, and look for the heartbeat in it."""
    problems = [
        Problem("queue_setting", f"{name} is {queue.get(name, 'not set')}; it must be true", DEPLOY)
        for name in ("FifoQueue", "ContentBasedDeduplication")
        if queue.get(name) != "true"
    ]
    seconds = int(queue.get("VisibilityTimeout", 0))
    wanted = config.consumer.function_timeout.total_seconds() + bell.VISIBILITY_MARGIN
    if seconds != wanted:
        text = f"visibility timeout is {seconds} s; it must be {wanted:g} s"
        problems.append(Problem("visibility_timeout_differs", text, DEPLOY))
    # The heartbeat is always in it: the next one waits behind it before it is released.
    if not messages_in(queue):
        text = "it has no heartbeat: without a ring, no invocation starts"
        advice = (
            "check again after a minute; if it stays so, enable the rule of the heartbeat, or deploy again"
        )
        problems.append(Problem("no_heartbeat", text, advice))
    return problems


def function_problems(config: LanesConfig, function: FunctionState) -> Problems:
    """Compare the function's concurrency with the number of slots."""
    slots, wanted = function.reserved_concurrency, config.consumer.reserved_concurrency
    if slots == 0:
        return [Problem("nothing_runs", "reserved concurrency is 0: nothing runs", DEPLOY)]
    if slots != wanted:
        text = f"reserved concurrency is {slots}, {wanted} was deployed"
        return [Problem("reserved_concurrency_differs", text, DEPLOY)]
    return []


def queue_prefix(deployment: Deployment) -> str | None:
    """Return the beginning of the names of all queues of lanes; None if your app names or only uses them."""
    for name in [lane.name for lane in deployment.config.lanes if not deployment.queues[lane.name].existing]:
        # AWS: CloudFormation names a queue by stack and logical id, which the CDK makes of the construct's path.
        logical = f"{re.sub(r'[^A-Za-z0-9]', '', name)}Queue"
        prefix, found, _ = name_of(deployment.queues[name].url).partition(logical)
        if found and prefix:
            return prefix
    return None


def known_queues(deployment: Deployment) -> set[str]:
    """Return the names of all queues of a deployment; the host of a URL depends on the endpoint that was asked."""
    urls = {url for one in deployment.queues.values() for url in (one.url, one.dead_letter_url)}
    return {name_of(url) for url in urls | ({deployment.bell} if deployment.bell else set())}


def messages_in(queue: Mapping[str, str]) -> int:
    """Return the approximate number of messages of a queue: waiting, in flight and delayed."""
    counts = ("", "NotVisible", "Delayed")
    return sum(int(queue.get(f"ApproximateNumberOfMessages{state}", 0)) for state in counts)


def name_of(address: str, separator: str = "/") -> str:
    """Return the name of a queue, which ends its URL; with `:` as the separator, its ARN."""
    return address.rpartition(separator)[2]


OWNER = "change it where the queue is defined; the stack only uses it"
GONE = (
    "restore it where it was defined, or correct `existing` or `dead_letter_queues` of LaneQueues and deploy"
)
SECONDS_OF_A_DAY = 86_400


def queue_problems(queue: Mapping[str, str]) -> Problems:
    """Compare a queue of the stack with the requirements of every lane."""
    wanted = {
        "FifoQueue": "true",
        # AWS: high throughput needs both (SQS quotas of messages). Without it a queue takes 300 calls a second of
        # each kind.
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        # Equal bodies are two messages: the id comes from the event (docs/decisions.md#kinds-and-cloudevents).
        "ContentBasedDeduplication": "false",
    }
    problems = [
        Problem("queue_setting", f"{name} is {queue.get(name, 'not set')}; it must be {value}", DEPLOY)
        for name, value in wanted.items()
        if queue.get(name, "false") != value
    ]
    return problems + encryption_problems(queue, DEPLOY)


def existing_queue_problems(queue: Mapping[str, str]) -> Problems:
    """Compare a queue that the stack does not define with the needs of every lane."""
    problems = []
    if queue.get("FifoQueue") != "true":
        problems.append(Problem("queue_setting", "it is a standard queue; a lane needs FIFO queues", OWNER))
    return problems + encryption_problems(queue, OWNER)


def existing_queue_notes(queue: Mapping[str, str]) -> list[str]:
    """Return what the settings of such a queue mean for its lane."""
    notes = []
    if queue.get("ContentBasedDeduplication") == "true":
        text = "of equal bodies from senders that set no deduplication id, SQS drops all but one within five minutes"
        notes.append(f"ContentBasedDeduplication is true: {text}")
    if queue.get("FifoThroughputLimit") != "perMessageGroupId":
        notes.append("FifoThroughputLimit is perQueue: it takes 300 calls a second of each kind")
    return notes


def encryption_problems(queue: Mapping[str, str], advice: str) -> Problems:
    """Return whether a queue is not encrypted."""
    if queue.get("SqsManagedSseEnabled") == "true" or queue.get("KmsMasterKeyId"):
        return []
    return [Problem("not_encrypted", "it is not encrypted", advice)]


def visibility_problems(lane: Lane, queue: Mapping[str, str]) -> Problems:
    """Compare the visibility timeout of a queue of the stack with the lane's."""
    seconds, wanted = int(queue.get("VisibilityTimeout", 0)), lane.visibility_timeout.total_seconds()
    if seconds == wanted:
        return []
    text = f"visibility timeout is {seconds} s, {wanted:g} s was deployed"
    return [Problem("visibility_timeout_differs", text, DEPLOY)]


def existing_visibility_problems(lane: Lane, queue: Mapping[str, str]) -> Problems:
    """Compare the visibility timeout of a queue that the stack does not define with the lane's: longer is fine."""
    seconds, wanted = int(queue.get("VisibilityTimeout", 0)), lane.visibility_timeout.total_seconds()
    if seconds >= wanted:
        return []
    text = f"visibility timeout is {seconds} s, below the lane's {wanted:g} s: a batch could come twice"
    advice = f"set at least {wanted:g} s where the queue is defined, or shorten function_timeout"
    return [Problem("visibility_timeout_short", text, advice)]


def dead_letter_problems(
    queue: Mapping[str, str], dead: Mapping[str, str], *, max_attempts: int, advice: str
) -> Problems:
    """Compare a dead-letter queue with the lane's queue, if that is known."""
    if not queue:
        return []
    policy = json.loads(queue.get("RedrivePolicy", "{}"))
    most, keeps = int(policy.get("maxReceiveCount", 0)), int(queue.get("MessageRetentionPeriod", 0))
    # Fewer would dead-letter messages that only yielded, were throttled or waited for a resource.
    least = minimum_max_receive_count(retention=timedelta(seconds=keeps), max_attempts=max_attempts)
    problems = []
    if policy.get("deadLetterTargetArn") != dead.get("QueueArn"):
        text = "the lane's queue does not name it as its dead-letter queue"
        problems.append(Problem("dead_letter_queue_unused", text, advice))
    elif most < least:
        text = f"SQS moves messages there after {most} receives, yields included; it must be {least} or more"
        problems.append(Problem("few_receives", text, advice))
    return problems + retention_problems(queue, dead, of="the lane's queue", advice=advice)


def retention_problems(
    queue: Mapping[str, str], dead: Mapping[str, str], *, of: str, advice: str
) -> Problems:
    """Return whether a dead-letter queue keeps messages for less time than its queue."""
    if int(dead.get("MessageRetentionPeriod", 0)) >= int(queue.get("MessageRetentionPeriod", 0)):
        return []
    return [Problem("short_retention", f"it keeps {kept_for(dead)}, {of} {kept_for(queue)}", advice)]


def kept_for(queue: Mapping[str, str]) -> str:
    """Describe a queue's retention."""
    days = int(queue.get("MessageRetentionPeriod", 0)) / SECONDS_OF_A_DAY
    return f"messages {days:g} days"


def receives_within(retention: timedelta) -> int:
    """
    Count the receives that yields and outages can cost a message within its retention, at most 1,000.

    SQS counts every receive, also those that end in a yield. The consumer keeps a message away for longer the more
    often it was received, so a message spends receives ever more slowly.

    Up to 500 they are about 60 seconds apart in an outage; then ``0.004 * receives ** 2`` seconds, also for yields.
    """
    waited = 0.0
    receives = 0
    while waited < retention.total_seconds() and receives < MAX_RECEIVES:
        receives += 1
        waited += min(receive_floor(receives), outage_floor(receives))
    return receives


def minimum_max_receive_count(*, retention: timedelta, max_attempts: int) -> int:
    """
    Give the smallest maxReceiveCount that yields, outages and failed attempts together cannot reach.

    Args:
        retention: How long the queue keeps a message.
        max_attempts: Failed attempts before the consumer dead-letters a message; each costs a receive too.

    Returns:
        The count, at most 1,000, the maximum of SQS.

    """
    return min(MAX_RECEIVES, receives_within(retention) + max_attempts)
