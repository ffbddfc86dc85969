"""The items of overrides in the ledger's table: the active ones, redirected groups, and cancelled messages."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from lanes.aws.table.items import key_parts, number_in, sortable, text_in
from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, ActiveOverrides, Cancelled, GroupRedirect, Override

if TYPE_CHECKING:
    from collections.abc import Mapping

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
