"""The examples work as documented; that of an app of your own is deployed in tests/local/test_platform.py."""

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import boto3
import pyarrow as pa
import pytest
from pyarrow import parquet

from examples import (
    asynchronous,
    priorities,
    together,
    traces,
)
from examples.orders import handler as orders
from lanes import LanesConfig, Message, Producer
from lanes.operate.dead_letters import WITHOUT_NOTE
from lanes.producer import Pacing
from lanes.testing import InMemoryLanes
from lanes.testing.clock import FakeClock
from local.server import AwsServer
from tests.docs.conftest import ROOT
from tests.support import operating
from tests.support.memory import World
from tests.support.sending import FakeSqs, make_deployment, queue_url


def producer(sqs, **fields):
    """Give a producer into lanes in memory."""
    clock = FakeClock()
    return Producer(
        deployment=make_deployment(), sqs=sqs, pacing=Pacing(clock=clock, pause=clock.advance), **fields
    )


def priorities_in(sqs, lane):
    """Give the priorities of the messages in a lane."""
    return [json.loads(entry.body)["priority"] for entry in sqs.queues.get(queue_url(lane), [])]


def test_a_body_of_another_form_reaches_the_raw_handler(monkeypatch):
    """An event of EventBridge is no CloudEvent."""
    monkeypatch.setattr(orders, "IMPORTED", [])
    lanes = InMemoryLanes(orders.consumer)
    lanes.send_body("MAIN", '{"detail": {"bucket": {"name": "uploads"}, "object": {"key": "a.csv"}}}')
    lanes.run_until_idle()

    assert orders.IMPORTED == ["uploads/a.csv"]


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_coroutine_handler_shares_its_client(engine, monkeypatch):
    """One session puts the lines of all invoices."""
    put, made = [], []

    class Session:
        def __init__(self):
            made.append(self)

        @contextlib.asynccontextmanager
        async def put(self, url):
            put.append(url)
            await asyncio.sleep(0)
            yield SimpleNamespace(raise_for_status=lambda: None)

    monkeypatch.setattr(asynchronous, "session", functools.cache(Session))
    lanes = InMemoryLanes(
        asynchronous.consumer, config=LanesConfig.from_dict({"consumer": {"engine": engine}})
    )
    for number in range(3):
        lanes.producer.send("invoice.issued", {"lines": ["a", "b", "c", "d"]}, id=f"i-{number}")
    lanes.run_until_idle()

    expected = [f"{asynchronous.PARTNER}/i-{number}/{line}" for number in range(3) for line in "abcd"]
    assert (sorted(put), len(made)) == (expected, 1)


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_batch_handler_posts_ten_invoices_in_one_request(engine, monkeypatch):
    """A refused one is dead-lettered, a busy answer is asked again alone, and the others are done."""
    requests = []

    def post(invoices):
        requests.append([invoice["id"] for invoice in invoices])
        answers = {"i-3": 422, "i-5": 429 if len(requests) == 1 else 200}
        return {invoice["id"]: answers.get(invoice["id"], 200) for invoice in invoices}

    monkeypatch.setattr(together, "post", post)
    lanes = InMemoryLanes(together.consumer, config=LanesConfig.from_dict({"consumer": {"engine": engine}}))
    names = [f"i-{number}" for number in range(10)]
    for name in names:
        lanes.producer.send("invoice.issued", together.Invoice(customer="c-1", amount=9.5), id=name)
    lanes.run_until_idle()

    assert requests == [names, ["i-5"]]
    letter = lanes.assert_dead_lettered("invoice.issued", reason="the partner refused it with 422")
    assert letter.id == "i-3"
    assert len(lanes.journal.handled) == 9


def test_blocks_decide_where_nothing_else_does():
    """In a plain call, in a decorated one, in a thread and in tasks."""
    sqs = FakeSqs()
    sender = producer(sqs)

    priorities.import_orders(sender, [1])
    priorities.nightly_reminders(sender, [2])
    with priorities.processing_priority(-70):
        priorities.remind_in_thread(sender, 3)
    priorities.asyncio.run(priorities.remind_all(sender, [4, 5]))
    priorities.remind(sender, 6)

    assert priorities_in(sqs, "MAIN") == [-100, -50, -70, -50, -50]
    assert priorities_in(sqs, "MEDIUM") == [0]


def test_rules_know_the_kind():
    """A number, or a function that may have nothing to say."""
    sqs = FakeSqs()
    sender = producer(sqs, rules=priorities.RULES)

    sender.send("payment.captured", {"amount": 5})
    sender.send("order.placed", {"express": True})
    sender.send("order.placed", {"express": False})

    assert priorities_in(sqs, "HIGH") == [50, 50]
    assert priorities_in(sqs, "MEDIUM") == [0]


@pytest.mark.deep
def test_the_spark_example_sends_its_table(tmp_path, installed_environment):
    """By spark-submit, with the packages under their installed names."""
    table = tmp_path / "customers.parquet"
    rows = {"customer_id": [f"c-{number}" for number in range(40)], "country": ["DE"] * 40}
    parquet.write_table(pa.table(rows), table)
    with AwsServer(log_path=tmp_path / "server.log") as server:
        sqs, deployment = add_stack(server.endpoint_url, "Shop")
        environment = installed_environment | {"AWS_ENDPOINT_URL": server.endpoint_url}
        spark_submit = [str(Path(sys.prefix) / "bin" / "spark-submit"), "--master", "local[1]"]

        done = subprocess.run(
            [*spark_submit, "examples/remind_customers.py", str(table), "Shop"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        assert waiting(sqs, deployment.queues["MAIN"].url) == 40


@pytest.mark.nightly
def test_the_spark_example_sends_a_stream(tmp_path, installed_environment):
    """By spark-submit, twice: the second time with the rows of a new file alone."""
    folder = tmp_path / "orders"
    folder.mkdir()
    with AwsServer(log_path=tmp_path / "server.log") as server:
        sqs, deployment = add_stack(server.endpoint_url, "Shop")
        environment = installed_environment | {"AWS_ENDPOINT_URL": server.endpoint_url}
        spark_submit = [str(Path(sys.prefix) / "bin" / "spark-submit"), "--master", "local[1]"]
        places = [str(folder), str(tmp_path / "checkpoint"), "Shop", str(tmp_path / "runs")]

        for number in (1, 2):
            (folder / f"{number}.json").write_text(f'{{"order_id": "o-{number}", "amount_cents": 1}}\n')
            done = subprocess.run(
                [*spark_submit, "examples/stream_orders.py", *places],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert waiting(sqs, deployment.queues["MAIN"].url) == number


@pytest.mark.nightly
def test_the_spark_example_joins_dead_letters_with_their_table(tmp_path, installed_environment):
    """By spark-submit; a dead letter of another kind is left out."""
    rows = {"customer_id": [f"c-{number}" for number in range(9)], "country": ["DE"] * 9}
    parquet.write_table(pa.table(rows), tmp_path / "customers.parquet")
    with AwsServer(log_path=tmp_path / "server.log") as server:
        sqs, deployment = add_stack(server.endpoint_url, "Shop")
        for kind, number in (("customer.reminded", 4), ("customer.reminded", 7), ("other.kind", 5)):
            message = Message(kind=kind, data={"customer_id": f"c-{number}"})
            sqs.send_message(
                QueueUrl=deployment.queues["MAIN"].dead_letter_url,
                MessageBody=message.to_body(),
                MessageGroupId=f"g-{number}",
                MessageDeduplicationId=message.id,
            )
        environment = installed_environment | {"AWS_ENDPOINT_URL": server.endpoint_url}
        spark_submit = [str(Path(sys.prefix) / "bin" / "spark-submit"), "--master", "local[1]"]
        places = [str(tmp_path / "customers.parquet"), "Shop", str(tmp_path / "unreminded")]

        done = subprocess.run(
            [*spark_submit, "examples/unreminded_customers.py", *places],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    found = parquet.read_table(tmp_path / "unreminded").to_pylist()
    assert {(row["customer_id"], row["country"], row["reason"]) for row in found} == {
        (customer, "DE", WITHOUT_NOTE) for customer in ("c-4", "c-7")
    }


def add_stack(endpoint_url, name):
    """Make the queues and the parameter of a stack with the default lanes."""
    client = functools.partial(boto3.client, endpoint_url=endpoint_url, region_name="eu-central-1")
    return client("sqs"), operating.make_deployment(client, stack=name)


def waiting(sqs, url):
    """Give the number of messages in a queue."""
    name = "ApproximateNumberOfMessages"
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(answer["Attributes"][name])


def run_program(arguments, *, cwd, environment):
    """Run a Python program to its good end."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_trace_goes_from_a_request_through_the_message_to_the_next_service():
    """The same trace id in all three, and nothing where there was no trace."""
    sqs, world = FakeSqs(), World()
    world.consumer._handlers = traces.consumer._handlers
    for headers in ({"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}, {}):
        traces.order_received(headers, {"order": 7}, producer(sqs))

    for entry in sqs.queues[queue_url("MEDIUM")]:
        world.send_body("MEDIUM", entry.body, group=entry.message_group_id)
    world.step("MEDIUM")

    first, second = traces.REQUESTS
    assert first["Traceparent"].split("-")[1] == "a" * 32
    assert second == {}
