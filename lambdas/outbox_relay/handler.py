"""Brings the entries of the stack's outbox to the lanes; there is nothing to adapt here."""

from collections.abc import Mapping
from typing import Any

from lanes.aws.outbox_relay import RelayFunction

relay = RelayFunction()


def lambda_handler(event: Mapping[str, Any], context: Any) -> None:
    """Publish what is due."""
    relay.handle(event, context)
