"""A test of the handler in `examples/first/handler.py`."""

from examples.first import handler


def test_an_order_is_shipped(lanes_in_memory, capsys):
    """From the producer through the lanes to the handler, before everyday work."""
    lanes_in_memory.serve(handler.consumer)
    lanes_in_memory.producer.send("order.placed", {"order": 7})
    lanes_in_memory.producer.send("order.placed", {"order": 8}, priority=50)
    lanes_in_memory.run_until_idle()

    lanes_in_memory.assert_handled("order.placed", lane="HIGH", order=8)
    assert capsys.readouterr().out == "shipping order 8\nshipping order 7\n"
