"""Overrides in the ledger's table, for the consumer and for operators: the active ones, redirects and cancellations."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.items import key_parts, latest_in, number_in, read_items, sortable, text_in
from lanes.errors import AwsError, ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, ActiveOverrides, Cancelled, GroupRedirect, Override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

OVERRIDES_KEY = {"pk": {"S": "overrides"}}
OVERRIDE = "override#"

CANCELLED_PARTITION = "cancelled"

# As long as the audit trail, which names the operator's command.
KEPT_SECONDS = 400 * 24 * 3600


def redirect_key(lane: str, group: str) -> Any:
    """Return the key of a group that may follow."""
    return {"pk": {"S": f"follow#{lane}#{group}"}}


def override_text(override: Override) -> str:
    """Return an override as its attribute."""
    return json.dumps(
        {
            "action": override.action,
            "wanted": override.wanted.to_dict(),
            "created_at": override.created_at,
            "expires_at": override.expires_at,
            "who": override.who,
            "why": override.why,
            "priority": override.priority,
        }
    )


def active_of(item: Mapping[str, Any], *, now: float) -> ActiveOverrides:
    """Return the unexpired overrides, and the ids of unreadable ones."""
    read, unread = [], []
    for name, value in item.items():
        if not name.startswith(OVERRIDE):
            continue
        override_id = name.removeprefix(OVERRIDE)
        try:
            read.append(_override(override_id, json.loads(value["S"])))
        # A later release may have written it. The consumer works without it, and its log names it.
        except (KeyError, TypeError, ValueError, AttributeError, ConfigurationError):
            unread.append(override_id)
    living = [override for override in read if override.expires_at > now]
    return ActiveOverrides(
        overrides=tuple(sorted(living, key=lambda one: (one.created_at, one.id), reverse=True)),
        unread=tuple(unread),
    )


def _override(override_id: str, raw: Mapping[str, Any]) -> Override:
    return Override(
        id=override_id,
        action=Action(raw["action"]),
        wanted=MessageFilter.from_dict(raw["wanted"]),
        created_at=float(raw["created_at"]),
        expires_at=float(raw["expires_at"]),
        who=str(raw["who"]),
        why=str(raw["why"]),
        priority=int(raw["priority"]),
    )


def item_of_redirect(follow: GroupRedirect) -> Any:
    """Return the item of a group that follows."""
    return {
        **redirect_key(follow.lane, follow.group),
        "group": {"S": follow.group},
        "lane": {"S": follow.lane},
        "overrides": {"SS": list(follow.overrides)},
        "expires_at": {"N": str(int(follow.expires_at))},
    }


def redirect_of(item: Any) -> GroupRedirect:
    """Read a group that follows."""
    _, lane, group = key_parts(item)
    # Without a readable end it counts: a message that did not follow would overtake those of its group.
    expires_at = number_in(item, "expires_at", default=math.inf)
    overrides = tuple(sorted(item.get("overrides", {}).get("SS", ())))
    return GroupRedirect(lane=lane, group=group, overrides=overrides, expires_at=expires_at)


def item_of_cancelled(cancelled: Cancelled) -> Any:
    """Return the item of a cancelled message."""
    fields = dataclasses.asdict(cancelled)
    texts = ("lane", "message_id", "id", "kind", "group", "source", "override", "who", "why")
    numbers = ("sent_at", "receive_count", "cancelled_at")
    return {
        "pk": {"S": f"cancelled#{cancelled.lane}#{cancelled.message_id}"},
        "parked_lane": {"S": CANCELLED_PARTITION},
        "parked_until": {"S": sortable(cancelled.cancelled_at)},
        **{name: {"S": fields[name]} for name in texts},
        **{name: {"N": str(fields[name])} for name in numbers},
        "expires_at": {"N": str(int(cancelled.cancelled_at) + KEPT_SECONDS)},
    }


def cancelled_of(item: Any) -> Cancelled:
    """Read a cancelled message."""
    _, lane, message_id = key_parts(item)
    return Cancelled(
        lane=lane,
        message_id=message_id,
        id=text_in(item, "id"),
        kind=text_in(item, "kind"),
        group=text_in(item, "group"),
        source=text_in(item, "source"),
        sent_at=number_in(item, "sent_at"),
        receive_count=int(number_in(item, "receive_count")),
        cancelled_at=number_in(item, "cancelled_at"),
        override=text_in(item, "override"),
        who=text_in(item, "who"),
        why=text_in(item, "why"),
    )


MOST_STANDING = 100
"""Overrides that may stand at once. AWS: an item holds 400 KB, and each environment reads all of it."""


class DynamoDBOverrides:
    """The active overrides of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock

    def now(self) -> float:
        """
        Return the time by the clock of AWS, epoch seconds: an operator's own may be minutes off.

        AWS: answers carry their time in whole seconds (HTTP header Date); the end of that second is meant, so that
        nothing counts as later that was sent before.
        """
        with aws_errors("GetItem"):
            answer = self._client.get_item(
                TableName=self._table, Key=OVERRIDES_KEY, ProjectionExpression="pk"
            )
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        return parsedate_to_datetime(date).timestamp() + 1.0 if date else self._clock()

    def active(self) -> ActiveOverrides:
        """Return the active overrides."""
        with aws_errors("GetItem"):
            # Consistent, so that each environment knows of an override after `KNOWN_AFTER`.
            answer = self._client.get_item(TableName=self._table, Key=OVERRIDES_KEY, ConsistentRead=True)
        return active_of(answer.get("Item", {}), now=self._clock())

    def redirects(self, lane: str, groups: Sequence[str]) -> dict[str, GroupRedirect]:
        """Return which of the groups have to follow, by group."""
        keys = [redirect_key(lane, group) for group in groups]
        found = [redirect_of(item) for item in read_items(self._client, self._table, keys)]
        return {follow.group: follow for follow in found if follow.expires_at > self._clock()}

    def redirect(self, follow: GroupRedirect) -> None:
        """Let the later messages of a group follow."""
        self._put(item_of_redirect(follow))

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message."""
        self._put(item_of_cancelled(cancelled))

    def add(self, override: Override) -> None:
        """
        Add an override, and remove expired ones.

        Raises:
            AwsError: also if too many are active.
        """
        with aws_errors("GetItem"):
            item: Any = self._client.get_item(
                TableName=self._table, Key=OVERRIDES_KEY, ConsistentRead=True
            ).get("Item", {})
        active = active_of(item, now=self._clock())
        living = {OVERRIDE + one.id for one in active.overrides} | {OVERRIDE + one for one in active.unread}
        # Two operators at once may exceed it by one, which does no harm.
        if len(living) >= MOST_STANDING:
            raise AwsError(
                operation="UpdateItem",
                code="TooManyOverrides",
                message=f"{len(living)} overrides stand already; withdraw some first",
                retryable=False,
            )
        names = {"#new": OVERRIDE + override.id}
        # Removed in the same call: attributes have no time to live, only items have.
        expired = [name for name in item if name.startswith(OVERRIDE) and name not in living]
        names |= {f"#old{place}": name for place, name in enumerate(expired)}
        removed = ", ".join(f"#old{place}" for place in range(len(expired)))
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=OVERRIDES_KEY,
                UpdateExpression="SET #new = :new" + (f" REMOVE {removed}" if removed else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={":new": {"S": override_text(override)}},
            )

    def withdraw(self, override_id: str) -> None:
        """Withdraw an override."""
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=OVERRIDES_KEY,
                UpdateExpression="REMOVE #one",
                ExpressionAttributeNames={"#one": OVERRIDE + override_id},
            )

    def cancellations(self, *, since: float, limit: int) -> list[Cancelled]:
        """Return cancelled messages, the latest first."""
        items = latest_in(
            CANCELLED_PARTITION, client=self._client, table=self._table, since=since, limit=limit
        )
        return [cancelled_of(item) for item in items]

    def _put(self, item: Any) -> None:
        with aws_errors("PutItem"):
            self._client.put_item(TableName=self._table, Item=item)
