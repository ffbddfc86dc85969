"""Tests of the handlers in `examples/orders/handler.py`: by themselves, in lanes in memory, and on moto."""

from datetime import timedelta

import pytest

from examples.orders import handler
from lanes import Producer


@pytest.fixture
def orders(lanes_in_memory, monkeypatch):
    """Give lanes with your handlers, which send to the same lanes."""
    lanes_in_memory.serve(handler.consumer)
    monkeypatch.setattr(handler, "producer", lambda: lanes_in_memory.producer)
    return lanes_in_memory


def test_an_order_has_a_receipt_printed(orders):
    """From the producer through the lanes to the handler, and on to its own message."""
    orders.producer.send("order.placed", {"order": 7}, group="customer-3", priority=50)
    orders.run_until_idle()

    orders.assert_handled("order.placed", lane="HIGH", order=7)
    receipt = orders.assert_sent("receipt.printed", order=7)
    assert (receipt.group, receipt.priority) == ("customer-3", 50)


def test_a_refund_has_a_type(orders):
    """Assertions compare the data as it was sent; only the handler sees a `Refund`."""
    orders.producer.send("refund.requested", {"order": 7, "amount": 2.5})
    orders.producer.send("refund.requested", {"order": 7, "amount": "all"})
    orders.run_until_idle()

    orders.assert_handled("refund.requested", order=7)
    assert handler.PAID_BACK == {7: 2.5}
    orders.assert_dead_lettered("refund.requested", reason="data.amount: Expected `float`, got `str`")


def test_a_rebuild_yields_to_a_payment(orders, lanes_clock, monkeypatch):
    """It yields between two pages and continues there."""

    def rebuild_page(page):
        handler.DONE_PAGES.append(page)
        lanes_clock.advance(timedelta(seconds=2))
        if page == "shoes/1":
            orders.producer.send("payment.captured", {"amount": 5}, priority=50)

    monkeypatch.setattr(handler, "DONE_PAGES", [])
    monkeypatch.setattr(handler, "rebuild_page", rebuild_page)
    orders.producer.send("catalogue.rebuilt", {"catalogue": "shoes"}, priority=-100)
    orders.run_until_idle()

    handled = [one.message.kind for one in orders.journal.handled]
    assert handled == ["payment.captured", "catalogue.rebuilt"]
    assert handler.DONE_PAGES == ["shoes/1", "shoes/2", "shoes/3"]


def test_a_payment_is_booked_through_boto3(lanes_on_moto):
    """Producer and consumer make the same calls as on AWS."""
    sent = Producer.from_env().send("payment.captured", {"amount": 5}, priority=50)
    lanes_on_moto.deliver("HIGH", handler.consumer)

    assert handler.BOOKED[sent.id] == 5
