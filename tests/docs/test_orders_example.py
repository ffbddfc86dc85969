"""Tests of the handlers in `examples/orders/handler.py`: by themselves, in lanes in memory, and on moto."""

from datetime import timedelta

import pytest

from examples.orders import handler
from lanes import DeadLetter, Message, Producer, Retry


def test_a_payment_without_an_amount_is_dead_lettered():
    """A handler is a plain function: call it."""
    with pytest.raises(DeadLetter):
        handler.book_payment(Message(kind="payment.captured", data={"amount": 0}))


def test_a_large_payment_is_tried_later():
    """The exception decides the outcome of the message."""
    with pytest.raises(Retry) as caught:
        handler.book_payment(Message(kind="payment.captured", data={"amount": 20_000}))

    assert caught.value.after.total_seconds() == 120


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


def test_a_payment_is_retried_until_the_bank_is_free(orders, lanes_clock, monkeypatch):
    """Two minutes pass at once."""
    orders.producer.send("payment.captured", {"amount": 20_000})
    orders.run_for(timedelta(minutes=1))
    monkeypatch.setattr(handler, "BUSY_ABOVE", 50_000)
    orders.run_until_idle()

    orders.assert_handled("payment.captured", attempt=2)
    assert 120 < lanes_clock.now - lanes_clock.started_at < 125


@pytest.mark.lanes_config(consumer={"max_attempts": 2})
def test_a_bank_that_stays_busy_ends_in_the_dead_letter_queue(orders):
    """Attempts are counted as in production; the marker allows only two."""
    orders.producer.send("payment.captured", {"amount": 20_000})
    orders.run_until_idle()

    orders.assert_dead_lettered("payment.captured", reason="attempts exhausted")
    orders.assert_nothing_waiting()


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
