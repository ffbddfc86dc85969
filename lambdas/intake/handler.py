"""The function of the stack's intake, deployed as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.producer.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

intake = Intake()


def lambda_handler(event: Mapping[str, Any], _context: LambdaContext) -> Any:
    """Forward one batch."""
    return intake.handle(event)
