"""A mapping from another source to the consumer's function is refused at synth."""

import pytest
from aws_cdk import App, Duration, Environment, Stack, Stage
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs

from cdk import LaneQueues, Ledger, PriorityConsumer
from tests.support.infrastructure import FOREIGN_CODE, lanes_config, new_app


@pytest.fixture
def app():
    """Give an app that bundles nothing."""
    return new_app()


@pytest.fixture(params=["mappings", "pull"])
def consumer(app, request):
    """Give the consumer of a stack, in both engines."""
    return add_consumer(Stack(app, "Orders"), request.param)


def add_consumer(stack, engine):
    """Add lanes and their consumer to a stack."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2, engine=engine))
    code = {"code": lambda_.Code.from_inline(FOREIGN_CODE), "handler": "index.lambda_handler"}
    return PriorityConsumer(stack, "Consumer", queues=queues, ledger=Ledger(stack, "Ledger"), **code)


def test_the_mappings_of_the_constructs_are_their_own(app, consumer):
    """Also beside another function of the app with its own queue."""
    other = lambda_.Function(
        Stack.of(consumer),
        "Other",
        runtime=lambda_.Runtime.PYTHON_3_14,
        handler="index.handle",
        code=lambda_.Code.from_inline(FOREIGN_CODE),
    )
    other.add_event_source(sources.SqsEventSource(sqs.Queue(Stack.of(consumer), "Jobs")))

    app.synth()


def test_a_second_function_on_the_lanes_or_their_bell_is_refused(app, consumer):
    """It would work beside the slots of the first, with no word of either."""
    stack = Stack.of(consumer)
    code = {"code": lambda_.Code.from_inline(FOREIGN_CODE), "handler": "index.lambda_handler"}
    queues = stack.node.find_child("Lanes")
    PriorityConsumer(stack, "Other", queues=queues, ledger=consumer.ledger, **code)

    with pytest.raises(
        RuntimeError, match=r"is read by Orders/Consumer/.*Mapping/Resource and Orders/Other/.*"
    ):
        app.synth()


@pytest.mark.parametrize("target", ["function", "live", "current_version"])
def test_a_foreign_queue_on_the_consumer_is_refused(app, consumer, target):
    """Each of its batches would fail, seen in the function's log alone."""
    stack = Stack.of(consumer)
    function = consumer.live if target == "live" else consumer.function
    function = function.current_version if target == "current_version" else function
    queue = sqs.Queue(stack, "Jobs", visibility_timeout=Duration.minutes(3))
    lambda_.EventSourceMapping(stack, "Jobs2", target=function, event_source_arn=queue.queue_arn)

    with pytest.raises(RuntimeError) as caught:
        app.synth()

    text = str(caught.value)
    assert 'Orders/Jobs2/Resource maps {"Fn::GetAtt": ["Jobs' in text
    assert "to the function Orders/Consumer/Function. It handles the lanes only" in text
    assert "Make a FIFO queue a lane with LaneQueues(existing=...)" in text


def test_a_foreign_queue_of_another_stack_is_refused_by_its_arn(app, consumer):
    """As a team adds it that owns the queue."""
    arn = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"
    lambda_.EventSourceMapping(Stack(app, "Jobs"), "Mapping", target=consumer.function, event_source_arn=arn)

    with pytest.raises(RuntimeError, match=f"Jobs/Mapping/Resource maps {arn} to the function"):
        app.synth()


@pytest.mark.parametrize(
    ("scopes", "accounts", "engine"),
    [
        ((App, App), (None, None), "mappings"),
        ((Stage, Stage), (None, None), "pull"),
        ((App, App), (1, 2), "pull"),
        ((Stage, Stage), (1, 2), "mappings"),
        ((App, Stage), (None, 2), "pull"),
    ],
)
def test_two_stacks_of_lanes_in_one_app_are_no_matter_of_each_other(app, scopes, accounts, engine):
    """Their templates name the parts alike, and the CDK refuses to refer to those of another account."""
    for number, (kind, account) in enumerate(zip(scopes, accounts, strict=True)):
        env = None if account is None else Environment(account=str(account) * 12, region="eu-central-1")
        scope = app if kind is App else Stage(app, f"Stage{number}")
        stack = Stack(scope, f"Orders{number}", env=env)
        add_consumer(stack, engine)
        rate = events.Schedule.rate(Duration.days(1))
        events.Rule(stack, "Rule", schedule=rate, targets=[targets.SqsQueue(sqs.Queue(stack, "Jobs"))])

    app.synth()
