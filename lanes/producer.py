"""
Sends messages into the lanes of a deployment.

Owns the word send. Which lane a message goes to follows from its priority alone; callers need not know lanes.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.deployment import Deployment
from lanes.dispatch import Dispatch
from lanes.errors import MessageError, RefusedMessagesError
from lanes.message import Message, size_bytes
from lanes.outgoing import BatchSender, Outgoing, SentMessage, UnsentMessage
from lanes.priority import PriorityRules, priority_to_send
from lanes.send_order import RetryPolicy, SendOrder
from lanes.trace_context import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import boto3

__all__ = ["Producer", "SentMessage", "UnsentMessage"]

CONCURRENCY = 4


class Producer:
    """
    Sends messages; one instance serves all threads of a process.

    Made by `from_stack`, `from_env` or `from_deployment`.

    Args:
        deployment: the lanes and where they are.
        sqs: sends one batch.
        rules: priorities by kind.
        source: CloudEvents source of the messages that `send` makes.
        retries: when a message is tried again.
        clock: monotonic seconds.
        pause: waits for so many seconds.
        jitter: numbers from 0 to 1 that spread the retries.
        most_concurrency: most calls at once, whatever `send_many` is told; with 1 no thread is started.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        sqs: BatchSender,
        rules: PriorityRules | None = None,
        source: str = "lanes",
        retries: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        most_concurrency: int | None = None,
    ) -> None:
        self.deployment = deployment
        self._sqs = sqs
        self._rules = rules
        self._source = source
        self._retries = retries or RetryPolicy()
        self._clock = clock
        self._pause = pause
        self._jitter = jitter
        self._most_concurrency = most_concurrency

    @classmethod
    def from_stack(
        cls,
        stack_name: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        rules: PriorityRules | None = None,
        source: str = "lanes",
    ) -> Producer:
        """
        Find the lanes of a deployed stack in the parameter `/lanes/<stack name>` of its account.

        Args:
            stack_name: name of the CloudFormation stack.
            region: AWS region; without it that of the session or of the environment.
            endpoint_url: where AWS is, for AWS on this machine.
            session: session of boto3 to make the clients with.
            rules: priorities by kind.
            source: CloudEvents source of the messages that `send` makes.

        Raises:
            ConfigurationError: there is no such parameter or it can't be read as lanes.
            AwsError: the call failed.
        """
        from lanes.aws.clients import Clients
        from lanes.aws.parameters import read_deployment

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        deployment = read_deployment(clients.ssm(), stack_name)
        return cls.from_deployment(
            deployment, region=region, endpoint_url=endpoint_url, session=session, rules=rules, source=source
        )

    @classmethod
    def from_env(cls, *, rules: PriorityRules | None = None, source: str = "lanes") -> Producer:
        """
        Take the lanes from the variable LANES_DEPLOYMENT, as the functions of a stack have it.

        Raises:
            ConfigurationError: the variable is missing or can't be read as lanes.
        """
        return cls.from_deployment(Deployment.from_env(), rules=rules, source=source)

    @classmethod
    def from_deployment(
        cls,
        deployment: Deployment,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        rules: PriorityRules | None = None,
        source: str = "lanes",
    ) -> Producer:
        """Send to known lanes; the arguments are those of `from_stack`."""
        from lanes.aws.clients import Clients
        from lanes.aws.sqs import SqsSender

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        return cls(deployment=deployment, sqs=SqsSender(clients.sqs()), rules=rules, source=source)

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
    ) -> SentMessage:
        """
        Send one message and wait until SQS has it.

        Args:
            kind: stable name of what the data is.
            data: anything that JSON can hold.
            group: messages of one group in one lane are handled in the order sent.
            priority: goes before the priority block, the rules of the kind and NORMAL.
            id: identity of the event; without it a new one.
            deduplication_id: SQS drops a second one within five minutes; without it derived from the id.
            traceparent: W3C trace context to pass on; without it the current one, if there is one.

        Raises:
            MessageError: the message breaks a rule; no call was made.
            PartialSendError: SQS did not take it; `failed` holds it.
        """
        message = Message(
            kind=kind,
            data=data,
            group=group,
            priority=priority,
            source=self._source,
            traceparent=traceparent,
            deduplication_id=deduplication_id,
        )
        if id is not None:
            message = replace(message, id=id)
        try:
            return self.send_many([message], concurrency=1)[0]
        except RefusedMessagesError as refused:
            raise refused.refusals[0][2] from None

    def send_many(self, messages: Iterable[Message], *, concurrency: int = CONCURRENCY) -> list[SentMessage]:
        """
        Send messages in batches, several calls at once, and wait until SQS has them.

        The order within each group of a lane is kept, also where SQS refuses some entries of a batch: at most
        one message of a group is on its way at a time. Only failed entries are sent again. Where one can't be
        sent in the end, the later ones of its group and lane are not sent either and are reported with it.

        Args:
            messages: what to send; held in memory until all is done.
            concurrency: most calls at once; fewer while SQS throttles.

        Returns:
            One record for each message, in the order given.

        Raises:
            RefusedMessagesError: some messages break rules; no call was made.
            PartialSendError: some messages were not sent; `sent` and `failed` list all of them.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; at least 1 is needed")
        concurrency = min(concurrency, self._most_concurrency or concurrency)
        items, lanes = self._prepared(messages)
        orders = [
            SendOrder(
                lane.name,
                lanes[lane.name],
                concurrency=concurrency,
                policy=self._retries,
                jitter=self._jitter,
            )
            for lane in self.deployment.config.lanes
            if lane.name in lanes
        ]
        dispatch = Dispatch(
            orders,
            queue_urls={name: queues.url for name, queues in self.deployment.queues.items()},
            sqs=self._sqs,
            concurrency=concurrency if len(items) > 1 else 1,
            clock=self._clock,
            pause=self._pause,
        )
        return dispatch.run(items)

    def _prepared(self, messages: Iterable[Message]) -> tuple[list[Outgoing], dict[str, list[Outgoing]]]:
        items: list[Outgoing] = []
        lanes: dict[str, list[Outgoing]] = defaultdict(list)
        refusals: list[tuple[int, Message, MessageError]] = []
        for index, message in enumerate(messages):
            if not isinstance(message, Message):
                raise TypeError(f"send_many takes Message(kind=..., data=...), not {type(message).__name__}")
            try:
                item = self._outgoing(index, message)
            except MessageError as error:
                refusals.append((index, message, error))
                continue
            items.append(item)
            lanes[self.deployment.config.lane_for(item.message.priority or 0).name].append(item)
        if refusals:
            raise RefusedMessagesError(refusals)
        return items, lanes

    def _outgoing(self, index: int, message: Message) -> Outgoing:
        priority = priority_to_send(message, self._rules)
        traceparent = current_traceparent() if message.traceparent is None else message.traceparent
        resolved = replace(message, priority=priority, traceparent=traceparent)
        body = resolved.to_body()
        return Outgoing(index=index, message=resolved, body=body, size_bytes=size_bytes(body))
