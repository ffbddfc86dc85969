"""What an amount of use costs, in examples worked out by hand, and the prices it is worked out with."""

import dataclasses

import pytest

from lanes.errors import ConfigurationError
from simulator.cost import cost_of, gb_seconds, sqs_use, times
from simulator.prices import Item, read_prices


def test_every_item_has_a_price_with_its_origin():
    """The library's own prices are whole, and say where and when they were read."""
    prices = read_prices()

    assert set(prices.dollars) == set(Item)
    assert prices.region == "us-east-1"
    assert prices.read_on == "2026-11-20"
    assert prices.source


def test_a_million_short_messages_cost_what_their_calls_and_seconds_do():
    """0.3 million requests at $0.50, 0.1 million invocations at $0.20, 5,000 GB-seconds at $13.3334 a million."""
    use = {
        Item.SQS_FIFO: 300_000,
        Item.INVOCATIONS: 100_000,
        Item.COMPUTE_ARM: gb_seconds(10_000, 512),
    }

    cost = cost_of(use, read_prices())

    assert {line.item: round(line.dollars, 4) for line in cost.lines} == {
        Item.SQS_FIFO: 0.15,
        Item.INVOCATIONS: 0.02,
        Item.COMPUTE_ARM: 0.0667,
    }
    assert cost.dollars == pytest.approx(0.236667)


def test_nothing_costs_nothing():
    """Items of which there is none make no line."""
    assert cost_of({Item.SQS_FIFO: 0}, read_prices()).lines == []


def test_calls_to_queues_become_requests_of_two_prices():
    """Counts of attributes are cheaper than what handles messages; other services are no matter of queues."""
    calls = {
        "sqs.SendMessageBatch": 2,
        "ReceiveMessage": 3,
        "sqs.GetQueueAttributes": 5,
        "dynamodb.PutItem": 7,
    }

    assert sqs_use(calls) == {Item.SQS_FIFO: 5, Item.SQS_OTHER: 5}


def test_use_of_a_thousand_messages_becomes_that_of_a_million():
    """A thousand times as much of everything."""
    assert times({Item.SQS_FIFO: 300, Item.WRITES: 2}, 1000) == {Item.SQS_FIFO: 300_000, Item.WRITES: 2_000}


def test_a_file_changes_the_prices_it_names(tmp_path):
    """The rest stay, and the source says that they do."""
    file = tmp_path / "prices.toml"
    file.write_text('region = "eu-central-1"\n[dollars]\ndynamodb_write_units = 0.71\n', encoding="utf-8")

    prices = read_prices(file)

    assert prices.region == "eu-central-1"
    assert prices.dollars[Item.WRITES] == 0.71
    assert prices.dollars[Item.SQS_FIFO] == 0.50
    assert str(file) in prices.source


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[dollars]\ndynamodb_write_unit = 1\n", "dynamodb_write_unit is unknown"),
        ('[dollars]\ndynamodb_write_units = "cheap"\n', "'cheap'; a number of dollars"),
        ("[dollars]\ndynamodb_write_units = -1\n", "-1; a number of dollars"),
        ("currency = 1\n", "currency is unknown"),
        ("dollars = 3\n", "dollars is not a table"),
        ("[dollars\n", "line 1"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, words):
    """With what is wrong in it."""
    file = tmp_path / "prices.toml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=words):
        read_prices(file)


def test_a_missing_file_is_told(tmp_path):
    """By its name."""
    with pytest.raises(ConfigurationError, match=r"none\.toml"):
        read_prices(tmp_path / "none.toml")


def test_a_price_times_an_amount():
    """Of a million for what is counted."""
    prices = dataclasses.replace(read_prices(), dollars={Item.WRITES: 2.0})

    assert prices.of(Item.WRITES, 500_000) == 1.0
