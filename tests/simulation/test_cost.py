"""What an amount of use costs, in examples worked out by hand, and the prices it is worked out with."""

import pytest

from lanes.errors import ConfigurationError
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
    use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: 5_000}

    assert read_prices().cost(use) == pytest.approx(0.236667)
    assert read_prices().cost(use, times=10) == pytest.approx(2.36667)
    assert read_prices().cost({}) == 0


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
        ("[dollars]\ndynamodb_write_units = nan\n", "nan; a number of dollars"),
        ("[dollars]\ndynamodb_write_units = inf\n", "inf; a number of dollars"),
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
