"""Queues that another stack or team owns, as lanes: checked here as far as this app defines them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config import Lane, LanesConfig
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError
from lanes.operate.check_rules import minimum_max_receive_count

from ..encryption import grant_key

SQS_ARN = re.compile(r"arn:[a-z-]+:sqs:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+(\.fifo)?")

# AWS: the defaults of a queue (SQS API, CreateQueue).
DEFAULT_RETENTION = timedelta(days=4)
DEFAULT_VISIBILITY = timedelta(seconds=30)

NO_ARN = (
    "not the ARN of an SQS queue; pass one, such as arn:aws:sqs:eu-central-1:123456789012:orders.fifo, or an "
    "aws_sqs.Queue"
)
OWNER = "change it where the queue is defined"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingLane:
    """The queues of a lane that exist already; four days is SQS's default where the retention is not known."""

    queue: sqs.IQueue
    dead_letter_queue: sqs.IQueue
    retention: timedelta


def existing_lanes(
    scope: Construct,
    *,
    config: LanesConfig,
    queues: Mapping[str, sqs.IQueue | str],
    dead_letter_queues: Mapping[str, sqs.IQueue | str],
) -> dict[str, ExistingLane]:
    """
    Return the existing queues by name of their lane.

    Args:
        scope: The construct that uses them.
        config: The lanes.
        queues: The queue of each lane that has one, as an ARN or a construct.
        dead_letter_queues: The dead-letter queues of those that this app does not know.

    Raises:
        ConfigurationError: All settings with which they can't be lanes, as far as this app knows them.

    """
    problems = [
        *_name_problems(config, "existing", queues),
        *_name_problems(config, "dead_letter_queues", dead_letter_queues),
        *_arn_problems("existing", queues),
        *_arn_problems("dead_letter_queues", dead_letter_queues),
    ]
    problems += [
        f"dead_letter_queues has {name}, and existing has not; add its queue to existing"
        for name in dead_letter_queues
        if name not in queues
    ]
    found = {}
    for lane in [one for one in config.lanes if one.name in queues and not problems]:
        queue = imported_queue(scope, f"existing-{lane.name}", queues[lane.name])
        given = dead_letter_queues.get(lane.name)
        letters = None if given is None else imported_queue(scope, f"dead-letters-{lane.name}", given)
        known = queue.dead_letter_queue if isinstance(queue, sqs.Queue) else None
        if letters is None and known is not None:
            letters = known.queue
        if letters is None:
            problems.append(_no_dead_letters(lane, queue))
            continue
        found[lane.name] = ExistingLane(queue=queue, dead_letter_queue=letters, retention=retention_of(queue))
        problems += _lane_problems(scope, lane, found[lane.name], known, config=config)
    problems += _shared_problems(found)
    if problems:
        raise ConfigurationError(problems, source="existing queues")
    return found


def granted(
    queue: sqs.IQueue,
    grantee: iam.IGrantable,
    actions: Sequence[str],
    *,
    key_actions: Sequence[str],
    source: str,
) -> iam.Grant:
    """
    Grant actions on a queue and on its key.

    Raises:
        ConfigurationError: Of ``source``: this app has a policy neither of the queue nor of the grantee.

    """
    if isinstance(queue, sqs.Queue):
        grant = queue.grant(grantee, *actions)
    else:
        # The policy of such a queue is its owner's; the CDK would report a grant that nothing allows.
        grant = iam.Grant.add_to_principal(
            grantee=grantee, actions=list(actions), resource_arns=[queue.queue_arn]
        )
        if not grant.success:
            problem = (
                f"{grantee.grant_principal} can't be granted {label_of(queue)}, since neither has a policy in this "
                "app; let the owner of the queue allow it, or grant it to a role"
            )
            raise ConfigurationError([problem], source=source)
    key = queue.encryption_master_key
    if key is None or not key_actions:
        return grant
    return grant.combine(grant_key(key, grantee, key_actions, scope=queue, service="sqs"))


def resource_of(queue: sqs.IQueue) -> sqs.CfnQueue | None:
    """Return the queue's resource, with its settings; None for one that this app does not define."""
    resource = queue.node.default_child
    return resource if isinstance(resource, sqs.CfnQueue) else None


def needs_deduplication_id(queue: sqs.IQueue) -> bool:
    """Whether SQS is known to refuse a message without a deduplication id."""
    resource = resource_of(queue)
    return resource is not None and not resource.content_based_deduplication


def retention_of(queue: sqs.IQueue) -> timedelta:
    """Return how long a queue keeps a message: SQS's default unless this app defines it."""
    resource = resource_of(queue)
    if resource is None or Token.is_unresolved(resource.message_retention_period):
        return DEFAULT_RETENTION
    return timedelta(seconds=resource.message_retention_period or DEFAULT_RETENTION.total_seconds())


def label_of(queue: sqs.IQueue) -> str:
    """Name a queue: by its ARN if that is known, else by its path in the app."""
    return queue.node.path if Token.is_unresolved(queue.queue_arn) else queue.queue_arn


def _name_problems(config: LanesConfig, prop: str, given: Mapping[str, object]) -> list[str]:
    names = [lane.name for lane in config.lanes]
    return [
        f"{prop} has {name!r}, which is not a lane; the lanes are {', '.join(names)}"
        for name in given
        if name not in names
    ]


def _arn_problems(prop: str, given: Mapping[str, sqs.IQueue | str]) -> list[str]:
    return [
        f"{prop} has {one!r} for {name}, which is {NO_ARN}"
        for name, one in given.items()
        if not _is_queue(one)
    ]


def _is_queue(given: sqs.IQueue | str) -> bool:
    """Whether it is a construct, or the ARN of a queue."""
    return not isinstance(given, str) or Token.is_unresolved(given) or SQS_ARN.fullmatch(given) is not None


def imported_queue(scope: Construct, construct_id: str, given: sqs.IQueue | str) -> sqs.IQueue:
    """Return a queue that is given as a construct or by its ARN."""
    return sqs.Queue.from_queue_arn(scope, construct_id, given) if isinstance(given, str) else given


def _no_dead_letters(lane: Lane, queue: sqs.IQueue) -> str:
    start = f"lane {lane.name}: {label_of(queue)} "
    if isinstance(queue, sqs.Queue):
        return f"{start}has no dead-letter queue; give it a FIFO one with a max_receive_count of 1000"
    return f"{start}comes without its dead-letter queue; add that to dead_letter_queues"


def _lane_problems(
    scope: Construct,
    lane: Lane,
    existing: ExistingLane,
    known: sqs.DeadLetterQueue | None,
    *,
    config: LanesConfig,
) -> Iterator[str]:
    """Yield all contradictions of a lane's queues, each with the cure."""
    for queue in (existing.queue, existing.dead_letter_queue):
        start = f"lane {lane.name}: {label_of(queue)} "
        yield from (f"{start}{text}" for text in place_problems(scope, queue))
        if _is_standard(queue):
            yield f"{start}is a standard queue; a lane needs FIFO queues: let a pipe send from it to a lane"
        resource = resource_of(queue)
        if (
            resource is not None
            and resource.sqs_managed_sse_enabled is False
            and not resource.kms_master_key_id
        ):
            yield f"{start}is not encrypted; {OWNER}: omit its encryption for that of SQS, or set a key"
    start, resource = f"lane {lane.name}: {label_of(existing.queue)} ", resource_of(existing.queue)
    if resource is None:
        return
    hides = visibility_of(resource)
    if hides < lane.visibility_timeout:
        wanted = format_duration(lane.visibility_timeout)
        yield (
            f"{start}has a visibility timeout of {format_duration(hides)}, under the lane's of {wanted}: SQS could "
            f"deliver a batch again while it is still being handled; set at least {wanted} where the queue is "
            "defined, or shorten function_timeout"
        )
    if known is not None:
        yield from (f"{start}{text}" for text in _redrive_problems(existing, known, config=config))


def place_problems(scope: Construct, queue: sqs.IQueue) -> Iterator[str]:
    """Yield why a queue is not in the region and the account of a stack."""
    stack, env = Stack.of(scope), queue.env
    for what, theirs, ours in (
        ("region", env.region, stack.region),
        ("account", env.account, stack.account),
    ):
        if theirs != ours and not Token.is_unresolved(theirs) and not Token.is_unresolved(ours):
            yield (
                f"is in the {what} {theirs} and the stack in {ours}; both must be the same: deploy the lanes there, or "
                "let its senders send to a lane here"
            )


def _redrive_problems(
    existing: ExistingLane, known: sqs.DeadLetterQueue, *, config: LanesConfig
) -> Iterator[str]:
    if label_of(known.queue) != label_of(existing.dead_letter_queue):
        yield (
            f"has the dead-letter queue {label_of(known.queue)}, and dead_letter_queues says "
            f"{label_of(existing.dead_letter_queue)}; omit the entry"
        )
    least = minimum_max_receive_count(retention=existing.retention, max_attempts=config.consumer.max_attempts)
    if known.max_receive_count < least:
        yield (
            f"has a max_receive_count of {known.max_receive_count:g}, which a message that only yields or waits for a "
            f"resource could reach: SQS counts these receives too; set at least {least} where the queue is defined, "
            "for example 1000"
        )


def _shared_problems(found: Mapping[str, ExistingLane]) -> Iterator[str]:
    """Yield each queue that has two roles: its messages would be handled, listed and redriven as another lane's."""
    roles: dict[str, str] = {}
    for name, lane in found.items():
        for role, queue in (
            (f"lane {name}", lane.queue),
            (f"dead letters of {name}", lane.dead_letter_queue),
        ):
            first = roles.setdefault(label_of(queue), role)
            if first != role:
                yield f"{label_of(queue)} is for {first} and for {role}; each needs its own queue"


def _is_standard(queue: sqs.IQueue) -> bool:
    """Whether a queue is known not to be FIFO, by its definition or its ARN."""
    if resource_of(queue) is not None:
        return not queue.fifo
    return not Token.is_unresolved(queue.queue_arn) and not queue.queue_arn.endswith(".fifo")


def visibility_of(resource: sqs.CfnQueue) -> timedelta:
    """Return a queue's visibility timeout; one that is known only when it is deployed, as the longest."""
    value = resource.visibility_timeout
    if Token.is_unresolved(value):
        return timedelta.max
    return DEFAULT_VISIBILITY if value is None else timedelta(seconds=value)
