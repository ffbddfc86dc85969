"""The page "Adopt it beside what you have", step by step on the local platform, with messages that wait throughout."""

import json
import re
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from examples.adopt import app as example
from examples.adopt.function import handler
from lanes import LanesConfig, Producer
from local.deploy import CdkApp
from local.platform import Platform
from tests.support.command import Typed
from tests.support.infrastructure import new_app, resources
from tests.support.memory import World
from tests.support.waiting import SLACK, until

APP = Path(__file__).parents[1] / "local" / "adopting_app"
GROUPS = 40
WAITING = 1000


class Handled:
    """The orders that both functions have handled, in the order of their lines, each with its function."""

    def __init__(self):
        self.all = []

    def __call__(self, function, line):
        """Take a line of a function."""
        if (old := re.match(r"old (\S+)", line)) is not None:
            self.all.append((old[1], "old"))
        elif '"event":"message_handled"' in line.replace(" ", ""):
            self.all.append((json.loads(line)["id"], "new"))

    def by(self, function):
        """Return the orders that one of the functions has handled."""
        return [number for number, name in list(self.all) if name == function]


def step(*stacks, **context):
    """Give the app with only these stacks, in this state."""
    return CdkApp(directory=APP, stacks=stacks, context={name: str(value) for name, value in context.items()})


class Shop:
    """The programs that send orders; those of a group are numbered."""

    def __init__(self, platform):
        self.sqs = platform.client("sqs")
        self.sent = []

    def order(self):
        """Return the number of the next order, and its group."""
        place = len(self.sent)
        self.sent.append(f"{place % GROUPS}-{place:05}")
        return self.sent[-1], f"customer-{place % GROUPS}"

    def send(self, count, queue="orders.fifo"):
        """Send orders as ever: JSON, without a deduplication id."""
        url = self.sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        for _ in range(count // 10):
            entries = []
            for place in range(10):
                number, group = self.order()
                body = json.dumps({"number": number})
                entries.append({"Id": str(place), "MessageBody": body, "MessageGroupId": group})
            answer = self.sqs.send_message_batch(QueueUrl=url, Entries=entries)
            assert len(answer["Successful"]) == 10, answer

    def put_dead_letters(self, numbers):
        """Let SQS move orders into the dead-letter queue after too many receives."""
        dead = self.sqs.get_queue_url(QueueName="orders-dead.fifo")["QueueUrl"]
        found = self.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        policy = {"deadLetterTargetArn": found["QueueArn"], "maxReceiveCount": 1}
        url = self.sqs.create_queue(
            QueueName="spent.fifo",
            Attributes={"FifoQueue": "true", "VisibilityTimeout": "0", "RedrivePolicy": json.dumps(policy)},
        )["QueueUrl"]
        for number in numbers:
            self.sent.append(number)
            self.sqs.send_message(
                QueueUrl=url,
                MessageBody=json.dumps({"number": number}),
                MessageGroupId="dead",
                MessageDeduplicationId=number,
            )
        for _ in range(2):
            self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)

    def send_messages(self, producer, count):
        """Send orders as a program that has been switched does."""
        for _ in range(count):
            number, group = self.order()
            producer.send("order.placed", {"number": number}, id=number, group=group, priority=50)


@pytest.fixture
def handled():
    """What the functions have handled."""
    return Handled()


@pytest.fixture(params=["mappings", "pull"])
def world(request, monkeypatch):
    """Lanes in memory with the function of the page."""
    monkeypatch.setattr(handler, "PLACED", [])
    world = World(engine=request.param)
    world.consumer = handler.consumer.within(world.environment()._runtime)
    return world


def test_the_function_of_the_page_reads_both_forms(world):
    """In the order of the group."""
    world.send_body("HIGH", '{"number": "o-1"}')
    world.send("HIGH", "order.placed", {"number": "o-2"})
    world.send_body("HIGH", '{"number": "o-3"}')

    assert world.step("HIGH") == set()
    assert handler.PLACED == ["o-1", "o-2", "o-3"]


def test_the_stack_of_the_page_maps_the_queue_that_exists():
    """And defines neither it nor its dead-letter queue, so they stay when the stack leaves."""
    config = LanesConfig.load(example.HERE / "lanes.toml")
    template = Template.from_stack(example.add_lanes(new_app(), config))

    sources = [
        one["EventSourceArn"] for one in resources(template, "AWS::Lambda::EventSourceMapping").values()
    ]
    assert f"{example.QUEUES}:orders.fifo" in sources
    assert {name[:9] for name in resources(template, "AWS::SQS::Queue")} == {"LanesMAIN"}


@pytest.fixture
def platform(tmp_path, handled):
    """The shop before it knows lanes."""
    app = step("Shop")
    with Platform(app=app, on_line=handled, build_directory=tmp_path / "build", slack=SLACK) as running:
        yield running


@pytest.mark.deep
def test_the_steps_lose_nothing_and_keep_the_order_of_each_group(platform, handled, monkeypatch):
    """There and back: the older function alone, both, lanes alone with both sorts of senders, the older one again."""
    for name, value in platform.variables().items():
        monkeypatch.setenv(name, value)
    run, shop = Typed(platform.endpoint_url), Shop(platform)

    def lanes(*arguments):
        """Run the command for the lanes, and return its document."""
        return json.loads(run("--stack", "Lanes", "--output", "json", *arguments).stdout)

    def work_until(count, function):
        until(lambda: len(handled.by(function)) >= count, why=f"{function}: {len(handled.by(function))}")

    def work_off():
        until(lambda: len(handled.all) >= len(shop.sent), why=f"{len(handled.all)} of {len(shop.sent)}")

    shop.put_dead_letters(["d-1", "d-2", "d-3"])
    shop.send(WAITING)
    work_until(20, "old")

    # 1. Prepare the queue and give up a part of the limit; 2. let the lanes come beside.
    platform.deploy(step("Shop", prepared="yes", old_slots=1))
    platform.deploy(step("Lanes", slots=1))
    # On a busy machine the older function has worked off the others by now.
    shop.send(200)
    work_until(20, "new")
    found = lanes("check")
    assert {one["code"] for one in found if one["verdict"] == "wrong"} == {
        "mapping_count",
        "several_functions",
    }

    # 3. Take the older function off the queue.
    platform.deploy(step("Shop", prepared="yes", old_is_mapped="no"))
    platform.deploy(step("Lanes", slots=2))
    left_at = len(shop.sent)
    shop.send(100)
    assert [one for one in lanes("check") if one["verdict"] == "wrong"] == []
    (high,) = (one for one in lanes("status") if one["lane"] == "HIGH")
    assert high["dead_letters"] == 3

    # 4. Switch producers; 5. redrive what the older function left.
    shop.send_messages(Producer.from_stack("Lanes", source="shop"), 50)
    assert [one["code"] for one in lanes("dead-letters", "list", "HIGH")] == ["moved_by_sqs"] * 3
    assert run("--stack", "Lanes", "dead-letters", "redrive", "HIGH", "--yes").returncode == 0
    shop.send(100)
    work_off()
    assert {*shop.sent[left_at:]} <= {*handled.by("new")}

    # Back: producers first, then pause the lane, and map the older function again.
    assert run("--stack", "Lanes", "pause", "HIGH").returncode == 0
    (mapping,) = platform.mappings_of("orders.fifo")
    # A receive that waits when the lane is paused still takes what arrives.
    until(lambda: not mapping.settings.enabled and mapping.running == 0, why="the lane still receives")
    shop.send(100)
    platform.deploy(step("Shop", prepared="yes", old_slots=2))
    back_at = len(shop.sent)
    shop.send(100)
    work_off()
    assert {*shop.sent[back_at:]} <= {*handled.by("old")}

    numbers = [number for number, _ in handled.all]
    assert sorted(numbers) == sorted(shop.sent)
    for group in {number.split("-")[0] for number in numbers}:
        mine = [number for number in numbers if number.startswith(f"{group}-")]
        assert mine == sorted(mine), group
