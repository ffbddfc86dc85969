"""A pipe of EventBridge from a queue that you have into a lane, for senders that can't set a group or an id."""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_pipes as pipes
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from lanes_cdk import LaneQueues


def add_pipe(scope: Construct, queue: sqs.IQueue, queues: LaneQueues) -> pipes.CfnPipe:
    """Send each message of a standard queue to MAIN, in the group of its customer."""
    role = iam.Role(scope, "PipeRole", assumed_by=iam.ServicePrincipal("pipes.amazonaws.com"))
    lane = queues.lane("MAIN")
    rights = queue.grant_consume_messages(role).combine(lane.grant_deliver(role))
    pipe = pipes.CfnPipe(
        scope,
        "Pipe",
        role_arn=role.role_arn,
        source=queue.queue_arn,
        target=lane.queue.queue_arn,
        target_parameters=pipes.CfnPipe.PipeTargetParametersProperty(
            # Without it your handler gets the SQS record around the body.
            input_template="<$.body>",
            sqs_queue_parameters=pipes.CfnPipe.PipeTargetSqsQueueParametersProperty(
                message_group_id="$.body.customer",
                message_deduplication_id="$.messageId",
            ),
        ),
    )
    rights.apply_before(pipe)
    return pipe
