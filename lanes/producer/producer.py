"""
The producer: send messages to the lanes of a deployment.

Owns the word send. The priority of a message alone decides its lane; you need not know the lanes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.encoding import program_source
from lanes.errors import ConfigurationError, MessageError, MessageTooLargeError, RunError
from lanes.message import (
    CLAIMED_AT,
    LARGEST_BODY_BYTES,
    Message,
    check_expiry,
    expiry_of,
    run_bytes,
    size_bytes,
    time_of,
)
from lanes.priority import PriorityRules, priority_to_send
from lanes.producer.later import LATEST, LATEST_OF_RUN, NO_SCHEDULER, LaterSender, call_of
from lanes.producer.order import SendOrder
from lanes.producer.outgoing import (
    BatchSender,
    Outgoing,
    RefusedMessagesError,
    SendReport,
    SentMessage,
    check_messages,
)
from lanes.producer.sending import Pacing, SendAll, ThreadedCalls
from lanes.schedules import LARGEST_INPUT_BYTES
from lanes.trace_context import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    import boto3

    from lanes.config.deployment import Deployment
    from lanes.producer.later import Later
    from lanes.producer.run import Run
    from lanes.runs import RunTable

CONCURRENCY = 4
# AWS: name, type and value of an attribute count towards the size of a message (API_SendMessage).
MARK_BYTES = len(CLAIMED_AT) + len("Number") + 15


class Producer:
    """
    Sends messages; you can share one instance between all threads of a process.

    Create it with `from_stack`, `from_env` or `from_deployment`.

    Args:
        deployment: the lanes and their queues.
        sqs: sends one batch.
        rules: priorities by kind.
        source: CloudEvents source of the messages that `send` creates; by default the name of this program.
        pacing: retries, concurrency, time and chance.
        runs: returns the table of runs.
        later: returns the calls that schedule messages for later; None if the deployment has no scheduler.
        clock: returns the time in epoch seconds, from which durations count.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        sqs: BatchSender,
        rules: PriorityRules | None = None,
        source: str | None = None,
        pacing: Pacing | None = None,
        runs: Callable[[], RunTable] | None = None,
        later: Callable[[], Later] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.deployment = deployment
        self._sqs = sqs
        self._rules = rules
        self.source = source or program_source()
        self._pacing = pacing or Pacing()
        self._runs = runs
        self._later = later
        self._clock = clock

    @classmethod
    def from_stack(
        cls,
        stack_name: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
    ) -> Producer:
        """
        Find the lanes of a deployed stack in the parameter `/lanes/<stack name>` of its account.

        Args:
            stack_name: name of the CloudFormation stack.
            region: AWS region; by default that of the session or of the environment.
            endpoint_url: URL of AWS, for an emulator.
            session: boto3 session for the clients.
            rules: priorities by kind.
            source: CloudEvents source of the messages that `send` creates; by default the name of this program.

        Raises:
            ConfigurationError: the parameter does not exist or is invalid.
            AwsError: the call failed.
        """
        from lanes.aws.clients import Clients, read_deployment

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        deployment = read_deployment(clients.ssm(), stack_name)
        return cls.from_deployment(
            deployment, region=region, endpoint_url=endpoint_url, session=session, rules=rules, source=source
        )

    @classmethod
    def from_env(cls, *, rules: PriorityRules | None = None, source: str | None = None) -> Producer:
        """
        Read the lanes from the variable LANES_DEPLOYMENT, which a stack sets on its functions.

        Raises:
            ConfigurationError: the variable is missing or invalid.
        """
        from lanes.aws.clients import deployment_from_env

        return cls.from_deployment(deployment_from_env(), rules=rules, source=source)

    @classmethod
    def from_deployment(
        cls,
        deployment: Deployment,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
    ) -> Producer:
        """Send to the lanes of a deployment; the other arguments are those of `from_stack`."""
        from lanes.aws.clients import Clients
        from lanes.aws.scheduler import later_of
        from lanes.aws.sending import SqsSender

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        sender = SqsSender.to_lanes(deployment, clients.sqs())

        def runs() -> RunTable:
            from lanes.aws.runs import DynamoDBRuns

            return DynamoDBRuns(table=deployment.table, client=clients.dynamodb())

        return cls(
            deployment=deployment,
            sqs=sender,
            rules=rules,
            source=source,
            runs=runs,
            later=later_of(deployment, clients),
        )

    def send(
        self,
        kind: str,
        data: Any,
        *,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002 - the name that CloudEvents gives it
        deduplication_id: str | None = None,
        traceparent: str | None = None,
        expires: datetime | timedelta | None = None,
        not_before: datetime | timedelta | None = None,
    ) -> SentMessage:
        """
        Send one message and wait until SQS has accepted it.

        Args:
            kind: stable name for this sort of message.
            data: any value that JSON can represent.
            group: messages of one group in one lane are handled in the order sent.
            priority: overrides the priority block, the rules of the kind and NORMAL.
            id: of the event; by default a new one. The same id of the same source and kind is the same message.
            deduplication_id: SQS drops a repeat within five minutes; by default the message's identity.
            traceparent: W3C trace context to pass on; by default the current one, if any.
            expires: no handler gets the message after this time, or so long from now; by default always one does.
            not_before: it is sent at this time, or so long from now, by EventBridge Scheduler, which is up to a
                minute late; at most 366 days ahead. A time in the past means now.

        Raises:
            ConfigurationError: `not_before` is given, and the deployment has no scheduler.
            MessageError: the message breaks a rule; no call was made.
            PartialSendError: SQS did not accept it; `failed` contains it.
        """
        message = Message(
            kind=kind,
            data=data,
            group=group,
            priority=priority,
            source=self.source,
            traceparent=traceparent,
            expires=expiry_of(expires, now=self._clock()),
            deduplication_id=deduplication_id,
        )
        if id is not None:
            message = replace(message, id=id)
        try:
            return self.send_many([message], concurrency=1, not_before=not_before)[0]
        except RefusedMessagesError as refused:
            # One message needs no list of refusals.
            raise refused.refusals[0][2] from None

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        concurrency: int = CONCURRENCY,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], object] | None = None,
        claimed_at: float | None = None,
        run: str = "",
        not_before: datetime | timedelta | None = None,
    ) -> list[SentMessage]:
        """
        Send messages in batches, with several calls in flight, and wait until SQS has accepted them.

        The order within each group of a lane holds, even if SQS refuses some entries of a batch: at most one message
        of a group is in flight at a time. Only failed entries are sent again. If a message finally fails, the later
        ones of its group and lane are not sent either and are reported with it.

        Args:
            messages: the messages; held in memory until all are sent.
            concurrency: maximum number of calls in flight; fewer while SQS throttles.
            should_stop: asked before each call; from True on none is made, and the rest is reported as `Interrupted`.
            progress: receives the number of messages that SQS has accepted so far, after each call.
            claimed_at: epoch seconds at which a relay claimed them; an operator's change of that time means them too.
            run: the mark of a run; `Run.send_many` passes its own.
            not_before: as in `send`; the messages join their groups when they are due. At most 30 days ahead in a run.

        Returns:
            One record for each message, in the order given.

        Raises:
            ConfigurationError: `not_before` is given, and the deployment has no scheduler.
            RefusedMessagesError: some messages break rules; no call was made.
            PartialSendError: some messages were not sent; `sent` and `failed` list all of them.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; must be at least 1")
        due = None if not_before is None else self._due(not_before, LATEST_OF_RUN if run else LATEST)
        items = self._prepared(messages, claimed_at=claimed_at, run=run, due=due)
        later = None if due is None or self._later is None else LaterSender(self._later(), at=due)
        report = self._dispatched(
            items,
            concurrency=concurrency,
            should_stop=should_stop,
            progress=progress,
            sqs=later or self._sqs,
        )
        if later is not None:
            report = replace(report, sent=later.with_times(report.sent))
        if report.unsent:
            raise report.error() from report.cause
        return report.sent

    def run(
        self,
        name: str,
        *,
        expected: int,
        on_complete: str = "",
        priority: int | None = None,
    ) -> Run:
        """
        Send messages that are followed to their end, together, in a `with` block.

        The end of the block seals the run: its members are the messages that were sent in it. After an exception the
        run stays open, and the same block can be run again with the same name.

        Args:
            name: up to 100 letters, digits and `._:-`; one run's alone for 45 days.
            expected: about how many messages it will have. Ten times as many make it more expensive, not wrong.
            on_complete: kind of a message that announces the end, when every member has one.
            priority: of that message; by default the rules of its kind and the priority block decide.

        Raises:
            RunError: at the beginning of the block, the run is sealed or closed already.

        Example:
            >>> def send_statements(producer: Producer, statements: list[Message]) -> None:
            ...     with producer.run("statements-2026-11", expected=5_000, on_complete="statements.sent") as run:
            ...         run.send_many(statements)
        """
        from lanes.producer.run import SEALING, Run
        from lanes.runs import Head, chunks_for

        if self._runs is None:
            raise RunError(f"the run {name!r} can't be followed: this producer knows no table of runs")
        announcement = Message(kind=on_complete, priority=priority)
        head = Head(
            name=name,
            chunks=chunks_for(expected),
            on_complete=on_complete,
            source=self.source,
            priority=priority_to_send(announcement, self._rules) if on_complete else 0,
        )
        concurrency = min(SEALING, self._pacing.max_concurrency or SEALING)
        return Run(send=self.send_many, table=self._runs(), head=head, concurrency=concurrency)

    def forward(self, items: Sequence[Outgoing]) -> SendReport:
        """Send bodies as they are, each to the lane of its message's priority, and report every one."""
        return self._dispatched(items, concurrency=CONCURRENCY, sqs=self._sqs)

    def _dispatched(
        self,
        items: Sequence[Outgoing],
        *,
        concurrency: int,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], object] | None = None,
        sqs: BatchSender,
    ) -> SendReport:
        concurrency = min(concurrency, self._pacing.max_concurrency or concurrency)
        lanes: dict[str, list[Outgoing]] = defaultdict(list)
        for item in items:
            lanes[self.deployment.config.lane_for(item.message.priority or 0).name].append(item)
        orders = [
            SendOrder(
                lane.name,
                lanes[lane.name],
                concurrency=concurrency,
                policy=self._pacing.retries,
                jitter=self._pacing.jitter,
            )
            for lane in self.deployment.config.lanes
            if lane.name in lanes
        ]
        concurrency = concurrency if len(items) > 1 else 1
        sending = SendAll(
            orders,
            queue_urls={name: queues.url for name, queues in self.deployment.queues.items()},
            calls=ThreadedCalls(sqs, concurrency=concurrency),
            concurrency=concurrency,
            pacing=self._pacing,
            progress=progress,
        )
        return sending.run(items, should_stop=should_stop)

    def _due(self, not_before: datetime | timedelta, latest: timedelta) -> float | None:
        """Return the time of messages for later; None if it is past, so that they are sent now."""
        due = time_of(not_before, self._clock(), latest=latest)
        if due <= self._clock():
            return None
        if self._later is None:
            raise ConfigurationError([NO_SCHEDULER], source="producer")
        return due

    def _prepared(
        self, messages: Iterable[Message], *, claimed_at: float | None, run: str, due: float | None
    ) -> list[Outgoing]:
        items: list[Outgoing] = []
        refusals: list[tuple[int, Message, MessageError]] = []
        check_messages(messages)
        for index, message in enumerate(messages):
            if not isinstance(message, Message):
                raise TypeError(
                    f"send_many accepts Message(kind=..., data=...), not {type(message).__name__}"
                )
            try:
                items.append(self._outgoing(index, message, claimed_at, run))
                if due is not None:
                    check_expiry(message, due)
                    self._check_call(items[-1])
            except MessageError as error:
                refusals.append((index, message, error))
        # All are checked before the first call: half of a refused list in the queues would be hard to mend.
        if refusals:
            raise RefusedMessagesError(refusals)
        return items

    def _check_call(self, item: Outgoing) -> None:
        lane = self.deployment.config.lane_for(item.message.priority or 0).name
        size = size_bytes(call_of(self.deployment.queues[lane].url, item.entry("")))
        if size > LARGEST_INPUT_BYTES:
            raise MessageTooLargeError(size_bytes=size, limit_bytes=LARGEST_INPUT_BYTES)

    def _outgoing(self, index: int, message: Message, claimed_at: float | None, run: str) -> Outgoing:
        priority = priority_to_send(message, self._rules)
        traceparent = current_traceparent() if message.traceparent is None else message.traceparent
        resolved = replace(message, priority=priority, traceparent=traceparent)
        body = resolved.to_body()
        size = size_bytes(body) + run_bytes(run)
        if size > LARGEST_BODY_BYTES:
            raise MessageTooLargeError(size_bytes=size, limit_bytes=LARGEST_BODY_BYTES)
        # Beside the largest body there is no room for the mark, and the message is worth more.
        if claimed_at is not None and size + MARK_BYTES > LARGEST_BODY_BYTES:
            claimed_at = None
        marked = size if claimed_at is None else size + MARK_BYTES
        return Outgoing(
            index=index, message=resolved, body=body, size_bytes=marked, claimed_at=claimed_at, run=run
        )
