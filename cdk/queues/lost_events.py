"""Find rules and schedules of EventBridge that send events which a lane would silently refuse."""

from collections.abc import Sequence
from typing import Any

import jsii
from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_scheduler as scheduler
from constructs import IConstruct, IValidation

ADVICE = (
    "EventBridge can't give the deduplication id that a lane needs, so SQS would refuse each event and the rule would "
    "report no failure. Let it target the queue of an Intake, or a pipe that sets MessageDeduplicationId"
)


@jsii.implements(IValidation)
class LostEvents:
    """
    The rule that no rule or schedule targets a lane.

    Args:
        scope: A construct of the app.
        lanes: The lanes that need a deduplication id, each with its ``queue``.

    """

    def __init__(self, scope: IConstruct, lanes: Sequence[Any]) -> None:
        self._scope = scope
        self._lanes = lanes

    def validate(self) -> list[str]:
        """Return a text for each target that is a lane."""
        found = []
        for node in self._scope.node.root.node.find_all():
            if isinstance(node, events.CfnRule):
                targets = Stack.of(node).resolve(node.targets) or []
            elif isinstance(node, scheduler.CfnSchedule):
                targets = [Stack.of(node).resolve(node.target)]
            else:
                continue
            # A schedule's universal target has the ARN of an action, and may set every parameter.
            arns = [target.get("arn") for target in targets]
            found += [
                f"{node.node.path} targets the lane {lane.lane.name}. {ADVICE}"
                for lane in self._lanes
                if Stack.of(node).resolve(lane.queue.queue_arn) in arns
            ]
        return found
