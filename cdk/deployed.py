"""Changes that are unsafe beside the deployed stack: a lane that goes with its messages, a far shorter timeout."""

from aws_cdk import Annotations, Stack

from lanes.config import VISIBILITY_FACTOR, LanesConfig
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError


def report_unsafe_changes(stack: Stack, *, deployed: LanesConfig, config: LanesConfig) -> None:
    """
    Warn of lanes that are removed before they are closed, and refuse a timeout that is shortened too far at once.

    Args:
        stack: The stack to annotate.
        deployed: The configuration in the parameter of the deployed stack.
        config: The configuration to deploy.

    Raises:
        ConfigurationError: The function timeout is shortened by more than the visibility timeouts bear.

    """
    annotations = Annotations.of(stack)
    names = {lane.name for lane in config.lanes}
    for lane in deployed.lanes:
        if lane.name not in names and not lane.closing:
            annotations.add_warning_v2(
                f"lanes:removed{lane.name}",
                f"Lane {lane.name} is deployed and missing in lanes.toml. Its queue stays, and no function reads it. "
                "Set closing = true first, deploy, and remove the lane when `lanes check` finds it empty.",
            )
    before, after = deployed.consumer.function_timeout, config.consumer.function_timeout
    # The queues change before the function: an invocation may run for its earlier timeout after its messages returned.
    if before > VISIBILITY_FACTOR * after:
        problem = (
            f"function_timeout is {format_duration(after)} and {format_duration(before)} is deployed: messages of "
            f"running invocations would return after {VISIBILITY_FACTOR} times the new timeout and run twice; "
            f"deploy at least {format_duration(before / VISIBILITY_FACTOR)} first"
        )
        raise ConfigurationError([problem], source=f"stack {stack.stack_name}")
