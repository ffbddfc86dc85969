"""What an amount of use costs, in examples worked out by hand, and the prices it is worked out with."""

import pytest

from simulator.outcome import Item, read_prices


def test_every_item_has_a_price_with_its_origin():
    """The library's own prices are whole, and say where and when they were read."""
    prices = read_prices()

    assert set(prices.dollars) == set(Item)
    assert prices.region == "us-east-1"
    assert prices.read_on == "2026-11-20"
    assert prices.source


def test_a_million_short_messages_cost_what_their_calls_and_seconds_do():
    """0.3 million requests at $0.50, 0.1 million invocations at $0.20, 5,000 GB-seconds at $13.3334 a million."""
    use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: 5_000}

    assert read_prices().cost(use) == pytest.approx(0.236667)
    assert read_prices().cost(use, times=10) == pytest.approx(2.36667)
    assert read_prices().cost({}) == 0
