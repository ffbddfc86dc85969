"""The relay of the stack's outbox, deployed as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.outbox.dynamodb.relay_function import RelayFunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

relay = RelayFunction()


def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Publish the due entries."""
    relay.handle(event, context)
