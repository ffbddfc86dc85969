"""The intake: a queue for senders that can't ring the bell, and a function that forwards to the lanes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Unpack

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes.config import MAX_RECEIVES
from lanes.config.table import format_duration
from lanes.operate.lanes.intake_check import LONGEST_VISIBILITY
from lanes.priority import Priority
from lanes.producer.intake import VARIABLE, IntakeRules

from .alarms.cloudwatch import add_alarms
from .alarms.rule import RUNBOOK, AlarmRule, Page, Severity, alarm_period
from .findings import acknowledge
from .function.lambda_function import (
    ForeignMappings,
    FunctionProps,
    add_function,
    add_queue_mapping,
    own_variables,
)
from .parameter import deployment_document
from .queues.contradictions import MAX_RETENTION
from .queues.existing import existing_intake, granted
from .queues.lane_queue import RECEIVING, SENDING
from .queues.lane_queues import LaneQueues
from .tables.ledger import Ledger

INTAKE_TIMEOUT = timedelta(minutes=1)
INTAKE_MEMORY_MB = 512
BATCH_SIZE = 10
# More would take concurrency from your other functions in a flood; this forwards more than 1,000 messages a second.
MAX_CONCURRENCY = 10

FOREIGN = "It forwards the messages of its own queue only: let the sender or the source send to the queue of the intake"


class Intake(Construct):
    """
    A queue, and a function that forwards its messages to the lanes and rings the bell.

    Use it for senders that can't set a group or a deduplication id, such as an EventBridge rule, a topic of SNS or a
    bucket, and with ``engine = "pull"`` for those that can't ring the bell, whose messages would wait up to 20 seconds.
    A FIFO queue keeps the message group of its sender, so order within a group holds; a standard queue has no order.

    Example:
        >>> intake = Intake(
        ...     stack, "Intake", queues=queues, ledger=ledger, code=consumer_code("lambdas/intake")
        ... )
        >>> rule.add_target(targets.SqsQueue(intake.queue, message_group_id="stock"))
        >>> uploads = Intake(
        ...     stack,
        ...     "Uploads",
        ...     queues=queues,
        ...     ledger=ledger,
        ...     code=consumer_code("lambdas/intake"),
        ...     standard=True,
        ...     group_by="Records.0.s3.object.key",
        ... )
        >>> bucket.add_object_created_notification(s3n.SqsDestination(uploads.queue))

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The lanes to forward to.
        ledger: The table of the consumer, for the deployment document.
        code: The code of the function, usually ``consumer_code("lambdas/intake")``.
        standard: Whether the queue is a standard one, for senders that can't send to a FIFO queue. Not by default.
        existing: A queue that you have already, FIFO or standard, as an ARN or a construct, in place of one of the
            intake; its settings stay yours. Its visibility timeout must be between 1 and 4 minutes.
        group_by: The place of the group in a JSON body: keys and positions in lists, joined by dots. Where a body has
            no text and no whole number there, and by default, it is the group of the sender; in a standard queue each
            message is a group of its own.
        id_by: The place of the deduplication id, likewise; by default that of the sender, and in a standard queue that
            of a CloudEvents message, or the message's id at SQS.
        priority: The priority of bodies without one, which selects the lane. ``Priority.NORMAL`` by default.
        oldest_age: The age of a message that raises an alarm, 5 minutes by default.
        actions: The actions of the alarms by severity, none by default.
        runbook: The URL of the runbook, by default its folder in this repository.
        removal_policy: Whether to keep or delete queues and logs with the stack. They are kept by default.
        **function_props: Handler, service name, log, VPC, layers, tracing and role of the function, see
            :class:`FunctionProps`.

    Attributes:
        queue: The queue to send to. In a FIFO queue, a message without a deduplication id gets one from its body.
        dead_letter_queue: The queue for messages that could not be forwarded 1,000 times, for example because a
            permission is missing. That of an existing queue is known only if this app defines it, else None.
        function: The function.
        live: The alias ``live``, which the mapping invokes.
        mapping: The event source mapping of the queue.
        alarms: ``DeadLetters`` (if the dead-letter queue is known) and ``OldestAge``.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        code: lambda_.Code,
        standard: bool = False,
        existing: sqs.IQueue | str | None = None,
        group_by: str | None = None,
        id_by: str | None = None,
        priority: int = Priority.NORMAL,
        oldest_age: timedelta = timedelta(minutes=5),
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
        runbook: str = RUNBOOK,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        **function_props: Unpack[FunctionProps],
    ) -> None:
        super().__init__(scope, construct_id)
        rules = IntakeRules(group_by=group_by, id_by=id_by, priority=priority)
        self.queue: sqs.IQueue
        self.dead_letter_queue: sqs.IQueue | None
        if existing is None:
            self.queue, self.dead_letter_queue = self._add_queues(removal_policy, is_fifo=not standard)
        else:
            self.queue = existing_intake(self, existing, shortest=INTAKE_TIMEOUT, longest=LONGEST_VISIBILITY)
            known = self.queue.dead_letter_queue if isinstance(self.queue, sqs.Queue) else None
            self.dead_letter_queue = None if known is None else known.queue
        document = deployment_document(queues=queues, ledger=ledger)
        self.function, self.live, self.log_group = add_function(
            self,
            "Function",
            description="Forwards messages to the priority lanes, and rings their bell",
            code=code,
            environment={
                **own_variables(self, document, function_props),
                # Also default rules: `lanes check` knows an intake by the variable.
                VARIABLE: rules.to_json(),
            },
            timeout=INTAKE_TIMEOUT,
            memory_mb=INTAKE_MEMORY_MB,
            removal_policy=removal_policy,
            without_dead_letter_queue="Only its mapping invokes it, and does so synchronously",
            props=function_props,
        )
        queues.grant_send(self.function)
        self.mapping = self._add_mapping()
        self.node.add_validation(
            ForeignMappings(self.function, self.live, own=[self.mapping], advice=FOREIGN)
        )
        added = add_alarms(
            self, intake_rules(self, oldest_age=oldest_age), actions=actions or {}, runbook=runbook
        )
        self.alarms: dict[str, cloudwatch.AlarmBase] = {name: one.alarm for name, one in added.items()}

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` send to the intake, and nothing else."""
        return granted(
            self.queue, grantee, ["sqs:SendMessage"], key_actions=SENDING, source=f"intake {self.node.path}"
        )

    def _add_queues(self, removal_policy: RemovalPolicy, *, is_fifo: bool) -> tuple[sqs.Queue, sqs.Queue]:
        """Add the queue and its dead-letter queue."""
        letters = self._add_queue("DeadLetterQueue", removal_policy, is_fifo=is_fifo)
        acknowledge(
            letters,
            "Serverless::Serverless-SQSRedrivePolicy",
            "This is the dead-letter queue itself and needs no other",
        )
        return self._add_queue("Queue", removal_policy, is_fifo=is_fifo, dead_letter_queue=letters), letters

    def _add_queue(
        self,
        construct_id: str,
        removal_policy: RemovalPolicy,
        *,
        is_fifo: bool,
        dead_letter_queue: sqs.Queue | None = None,
    ) -> sqs.Queue:
        last_resort = None
        if dead_letter_queue is not None:
            last_resort = sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVES, queue=dead_letter_queue)
        return sqs.Queue(
            self,
            construct_id,
            # None is a standard queue: CloudFormation takes no false.
            fifo=is_fifo or None,
            # EventBridge sets no deduplication id.
            content_based_deduplication=is_fifo or None,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP if is_fifo else None,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID if is_fifo else None,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(MAX_RETENTION.days),
            visibility_timeout=Duration.seconds(int(LONGEST_VISIBILITY.total_seconds())),
            dead_letter_queue=last_resort,
            removal_policy=removal_policy,
        )

    def _add_mapping(self) -> lambda_.EventSourceMapping:
        # AWS: a mapping receives and deletes with the role of its function (Developer Guide, "Using Lambda with Amazon
        # SQS").
        granted(
            self.queue,
            self.function,
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            key_actions=RECEIVING,
            source=f"intake {self.node.path}",
        )
        return add_queue_mapping(
            self,
            "Mapping",
            target=self.live,
            queue=self.queue,
            batch_size=BATCH_SIZE,
            max_concurrency=MAX_CONCURRENCY,
            without_destination="messages that fail stay in the queue",
        )


def intake_rules(intake: Intake, *, oldest_age: timedelta) -> Iterator[AlarmRule]:
    """
    Give the rules of one intake.

    Args:
        intake: The intake to watch.
        oldest_age: The age of a message that raises an alarm.

    """
    period = alarm_period()
    if intake.dead_letter_queue is not None:
        yield AlarmRule(
            name="DeadLetters",
            severity=Severity.CRITICAL,
            metric=intake.dead_letter_queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=period
            ),
            threshold=1,
            description="Messages of the intake could not be forwarded to their lanes.",
            first_step="read the log of the intake's function, then redrive them with the console of SQS.",
            page=Page.INTAKE,
        )
    yield AlarmRule(
        name="OldestAge",
        severity=Severity.CRITICAL,
        metric=intake.queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=period),
        threshold=oldest_age.total_seconds(),
        description=f"A message has waited {format_duration(oldest_age)} in the intake.",
        first_step="read the log of the intake's function for `was not forwarded`.",
        page=Page.INTAKE,
    )
