"""LaneQueues: the queues of the lanes."""

from datetime import timedelta

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk.assertions import Template

from cdk import LaneQueues
from tests.support.infrastructure import lane_pairs, lanes_config, new_app, resources, stack_with_producers

QUEUE = "AWS::SQS::Queue"
FORTNIGHT_SECONDS = 14 * 24 * 3600


def test_each_lane_has_a_fifo_queue_and_a_fifo_dead_letter_queue_of_its_own(foreign):
    """Every lane redrives to its own dead-letter queue, and there are no other queues."""
    config, template = foreign

    pairs = lane_pairs(template)

    assert [
        queue.startswith(f"Lanes{lane.name}Queue") for lane, queue in zip(config.lanes, pairs, strict=True)
    ]
    assert resources(template, QUEUE).keys() == {*pairs.keys(), *pairs.values()}
    assert len({*pairs.values()}) == len(config.lanes)
    template.all_resources_properties(QUEUE, {"FifoQueue": True})


def test_every_queue_is_in_high_throughput_mode(template):
    """Throughput and deduplication are by group."""
    template.all_resources_properties(
        QUEUE,
        {
            "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId",
            "ContentBasedDeduplication": False,
        },
    )


def test_lanes_and_dead_letters_are_kept_for_two_weeks(template):
    """Nothing expires earlier than SQS makes it."""
    template.all_resources_properties(QUEUE, {"MessageRetentionPeriod": FORTNIGHT_SECONDS})


def test_dead_letters_are_kept_for_two_weeks_however_short_a_lane_keeps():
    """A dead letter is the only copy of its message, and an operator must inspect it."""
    stack = Stack(new_app(), "Stack")
    LaneQueues(stack, "Lanes", config=lanes_config(2), retention=timedelta(days=1))
    template = Template.from_stack(stack)
    queues = resources(template, QUEUE)

    for queue, dead_letters in lane_pairs(template).items():
        assert queues[queue]["MessageRetentionPeriod"] == 24 * 3600
        assert queues[dead_letters]["MessageRetentionPeriod"] == FORTNIGHT_SECONDS


def test_the_native_receive_limit_is_the_last_resort(template):
    """Yields spend receives, so the queue's own limit is the highest there is."""
    for name in lane_pairs(template):
        properties = resources(template, QUEUE)[name]

        assert properties["RedrivePolicy"]["maxReceiveCount"] == 1000


def test_a_lane_hides_messages_for_at_least_six_function_timeouts(foreign):
    """A batch can't come back while its invocation may still run."""
    _config, template = foreign
    (function,) = resources(template, "AWS::Lambda::Function").values()

    for name in lane_pairs(template):
        assert resources(template, QUEUE)[name]["VisibilityTimeout"] >= 6 * function["Timeout"]


def test_the_configured_visibility_timeout_reaches_the_queue():
    """A lane's own visibility timeout wins over the default."""
    config = lanes_config(1, function_timeout="10s")
    lane = type(config.lanes[0])(name="ONLY", visibility_timeout=timedelta(minutes=5))
    stack = Stack(new_app(), "Stack")
    LaneQueues(stack, "Lanes", config=type(config)(lanes=(lane,), consumer=config.consumer))

    Template.from_stack(stack).has_resource_properties(QUEUE, {"VisibilityTimeout": 300})


def test_queue_names_are_left_to_cloudformation(template):
    """No queue has a physical name, so a replacement never collides."""
    assert not [name for name, properties in resources(template, QUEUE).items() if "QueueName" in properties]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(None, ("RetainExceptOnCreate", "Retain")), (RemovalPolicy.DESTROY, ("Delete", "Delete"))],
    ids=["default", "destroy"],
)
def test_queues_stay_unless_they_may_be_destroyed(policy, expected):
    """Messages outlive the stack by default."""
    stack = Stack(new_app(), "Stack")
    LaneQueues(
        stack, "Lanes", config=lanes_config(2), **({} if policy is None else {"removal_policy": policy})
    )

    found = Template.from_stack(stack).find_resources(QUEUE).values()

    assert {(queue["DeletionPolicy"], queue["UpdateReplacePolicy"]) for queue in found} == {expected}


def test_no_other_queue_may_dead_letter_into_a_lane(template):
    """Its messages would be handled as the lane's; by default each queue of the account may."""
    queues = resources(template, QUEUE)

    for lane in lane_pairs(template):
        assert queues[lane]["RedriveAllowPolicy"] == {"redrivePermission": "denyAll"}


def test_grant_send_returns_a_grant_that_was_given():
    """The caller can check that the grant succeeded."""
    _template, (grant,) = stack_with_producers()

    assert grant.success


def test_a_grant_on_an_unknown_lane_names_the_lanes_there_are():
    """A typing mistake in a lane's name ends the synth."""
    with pytest.raises(KeyError, match=r"no lane 'L9'"):
        stack_with_producers("L9")


def test_metrics_of_a_lane_point_to_its_queues():
    """The helpers watch the right queue with the statistic that suits a gauge."""
    stack = Stack(new_app(), "Stack")
    lane = LaneQueues(stack, "Lanes", config=lanes_config(2)).lane("L0")

    metrics = {
        "ApproximateNumberOfMessagesVisible": lane.metric_backlog(),
        "ApproximateNumberOfMessagesNotVisible": lane.metric_in_flight(),
        "ApproximateAgeOfOldestMessage": lane.metric_oldest_age(),
    }
    dead_letters = lane.metric_dead_letters(period=timedelta(minutes=5))

    for name, metric in metrics.items():
        assert (metric.namespace, metric.metric_name, metric.statistic) == ("AWS/SQS", name, "Maximum")
        assert stack.resolve(metric.dimensions) == {"QueueName": stack.resolve(lane.queue.queue_name)}
    assert stack.resolve(dead_letters.dimensions) == {
        "QueueName": stack.resolve(lane.dead_letter_queue.queue_name)
    }
    assert dead_letters.period.to_seconds() == 300


def test_a_lane_s_queues_can_have_fixed_names():
    """For programs that know their queue by its name; the other lanes are named by CloudFormation."""
    stack = Stack(new_app(), "Stack")
    LaneQueues(stack, "Lanes", config=lanes_config(2), queue_names={"L0": "orders.fifo"})

    queues = resources(Template.from_stack(stack), QUEUE)

    names = {name[:8]: one.get("QueueName") for name, one in queues.items() if "Dead" not in name}
    assert names == {"LanesL0Q": "orders.fifo", "LanesL1Q": None}
    assert [one["QueueName"] for name, one in queues.items() if name.startswith("LanesL0Dead")] == [
        "orders-dead.fifo"
    ]
