"""The page "Change a message": old and new code at once, in both orders of their deploys, lose nothing."""

import pytest

from examples.changes import after, before
from lanes.consumer import Consumer
from tests.support.memory import World


@pytest.fixture(params=["mappings", "pull"])
def world(request, monkeypatch):
    """Lanes in memory with an environment of the old function and one of the new function."""
    for module, names in ((before, ["SHIPPED"]), (after, ["SHIPPED", "CANCELLED"])):
        for name in names:
            monkeypatch.setattr(module, name, [])
    world = World(engine=request.param)
    world.old, world.new = (
        module.consumer.within(world.environment()._runtime) for module in (before, after)
    )
    return world


def work(world, *consumers, seconds=120):
    """Let these environments take turns at the lanes for a time."""
    end = world.clock.now + seconds
    while world.clock.now < end:
        for consumer in consumers:
            assert isinstance(consumer, Consumer)
            world.step("MAIN", consumer=consumer)
            world.clock.advance(1)


def send(world, kind, number, **data):
    """Send the message of an order, in the group of its number."""
    world.send("MAIN", kind, {"order": number, **data}, group=f"order-{number}", id=f"{kind}-{number}")


def test_old_and_new_code_at_once_handle_every_message_once(world):
    """Producers of both versions send meanwhile; the old code passes on what it does not know."""
    for number in range(0, 40, 4):
        send(world, "order.created", number, cents=100)
        send(world, "order.created", number + 1, cents=100, currency="USD")
        send(world, "order.placed", number + 2, cents=100, currency="USD")
        send(world, "order.cancelled", number + 3, version=2)
    work(world, world.old, world.new, seconds=600)

    shipped = [one[0] for one in (*before.SHIPPED, *after.SHIPPED)]
    assert sorted(shipped) == [number for number in range(40) if number % 4 != 3]
    assert sorted(after.CANCELLED) == [number for number in range(40) if number % 4 == 3]
    assert not world.queues.notes
    assert not world.recorder.named("message_failed")
    assert world.recorder.counts["UnknownKindMessages"] > 0


def test_a_rollback_keeps_what_waits_for_the_next_deploy(world):
    """Also what the new code had received long before, and keeps the order of its group."""
    send(world, "order.placed", 1, cents=100)
    send(world, "order.created", 1, cents=200)
    world.clock.advance(5 * 3600)
    work(world, world.old, seconds=3000)
    assert not world.queues.notes
    assert not before.SHIPPED

    work(world, world.new)

    assert after.SHIPPED == [(1, 100, "EUR"), (1, 200, "EUR")]


def test_data_of_an_older_version_is_converted():
    """By the function of the page."""
    assert after.current({"number": 7}) == after.current({"version": 2, "order": 7})
