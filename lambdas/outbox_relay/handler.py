"""Brings the entries of the stack's outbox to the lanes; there is nothing to adapt here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.outbox_relay import RelayFunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

relay = RelayFunction()


def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Publish what is due."""
    relay.handle(event, context)
