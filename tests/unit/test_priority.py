"""Priorities, priority blocks and rules per kind."""

import asyncio
import contextvars
import functools
import threading

import pytest

from lanes.errors import ConfigurationError
from lanes.message import Message
from lanes.priority import (
    Priority,
    PriorityRules,
    current_priority,
    processing_priority,
)

MESSAGE = Message(kind="order.placed", data={"amount": 70})


@pytest.mark.parametrize(
    ("name", "value"), [("BULK", -100), ("LOW", -50), ("NORMAL", 0), ("HIGH", 50), ("CRITICAL", 100)]
)
def test_five_priorities_have_names(name, value):
    """The names are words for numbers."""
    assert Priority[name] == value


def test_the_innermost_block_wins_and_the_outer_one_is_restored():
    """Blocks nest, also with the same level and with level zero."""
    seen = []
    with processing_priority(Priority.LOW):
        with processing_priority(Priority.CRITICAL):
            seen.append(current_priority())
            with processing_priority(0):
                seen.append(current_priority())
            seen.append(current_priority())
        seen.append(current_priority())

    assert seen == [100, 0, 100, -50]


@pytest.mark.parametrize("level", [True, "50", None, 1.0])
def test_nothing_else_is_a_priority(level):
    """A bool is an int to Python and no priority to us."""
    with pytest.raises(TypeError, match="must be an int"):
        processing_priority(level)


def test_threads_do_not_see_each_others_blocks():
    """Two threads in two blocks at the same time."""
    both_inside = threading.Barrier(2)
    seen = {}

    def work(level):
        with processing_priority(level):
            both_inside.wait(timeout=60)
            seen[level] = current_priority()
            both_inside.wait(timeout=60)

    threads = [threading.Thread(target=work, args=(level,)) for level in (-100, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == {-100: -100, 100: 100}


def test_tasks_do_not_see_each_others_blocks():
    """A task starts with its creator's block and changes its own only."""

    async def work(level, others):
        inherited = current_priority()
        with processing_priority(level):
            others.append(level)
            while len(others) < 2:  # noqa: ASYNC110 - both tasks must be inside at once
                await asyncio.sleep(0)
            return inherited, current_priority()

    async def both():
        others = []
        with processing_priority(Priority.HIGH):
            tasks = [asyncio.create_task(work(level, others)) for level in (-100, 100)]
        return await asyncio.gather(*tasks)

    assert asyncio.run(both()) == [(50, -100), (50, 100)]


def left_half_way(level):
    """Open a block, and go on in it."""
    with processing_priority(level):
        yield


def test_a_block_that_ends_late_leaves_those_opened_after_it():
    """A generator that is not run to its end closes its block whenever it is collected."""
    work = left_half_way(Priority.LOW)
    with processing_priority(Priority.NORMAL):
        next(work)
        with processing_priority(Priority.HIGH):
            work.close()
            assert current_priority() == 50
        assert current_priority() == 0
    assert current_priority() is None


def test_a_block_that_ends_late_brings_nothing_back():
    """The block around it has ended long since."""
    work = left_half_way(Priority.LOW)
    with processing_priority(Priority.HIGH):
        next(work)
    work.close()

    assert current_priority() is None


def test_a_block_may_end_in_another_context():
    """Web frameworks run the parts of a generator before and after its yield in different threads."""
    work = left_half_way(Priority.LOW)
    contextvars.copy_context().run(next, work)

    with processing_priority(Priority.HIGH):
        work.close()
        assert current_priority() == 50


def test_a_decorated_function_runs_in_a_block_of_its_own():
    """Each call opens one, also calls within calls."""

    @processing_priority(Priority.BULK)
    def count(down):
        """Count."""
        return [current_priority(), *(count(down - 1) if down else [])]

    assert count(2) == [-100, -100, -100]
    assert current_priority() is None
    assert count.__doc__ == "Count."


def test_a_block_serves_one_with_at_a_time():
    """Opened twice at once it could not restore what was before."""
    block = processing_priority(Priority.LOW)
    with block, pytest.raises(RuntimeError, match="already open"):
        block.__enter__()
    with block:
        assert current_priority() == Priority.LOW

    assert current_priority() is None


async def coroutine_function():
    """Run later."""


async def async_generator():
    """Run later and more than once."""
    yield


def generator():
    """Run in pieces."""
    yield


class AsyncCallable:
    """An object whose call is a coroutine function."""

    async def __call__(self):
        """Run later."""


@pytest.mark.parametrize(
    "function",
    [
        coroutine_function,
        async_generator,
        generator,
        AsyncCallable(),
        functools.partial(coroutine_function),
        AsyncCallable().__call__,
    ],
)
def test_what_runs_later_is_not_decorated(function):
    """Its body would run after the block; the hint says what to write instead."""
    with pytest.raises(TypeError, match="inside it"):
        processing_priority(Priority.LOW)(function)


def test_a_class_is_not_decorated():
    """Its methods would run outside the block."""
    with pytest.raises(TypeError, match="decorate functions only"):
        processing_priority(Priority.LOW)(AsyncCallable)


def test_a_decorator_without_its_level_is_explained():
    """`@processing_priority` on its own is a slip of the pen."""
    with pytest.raises(TypeError, match=r"@processing_priority\(level\)"):

        @processing_priority
        def function():
            pass


def test_the_largest_rule_of_a_kind_applies():
    """Numbers and functions side by side; a function may have nothing to say."""
    rules = PriorityRules({"order.placed": [-100, lambda message: -message.data["amount"], lambda _: None]})

    assert rules.priority_of(MESSAGE) == -70

    rules.add("order.placed", 5)

    assert rules.priority_of(MESSAGE) == 5
    assert rules.priority_of(Message(kind="other")) is None


@pytest.mark.parametrize("rule", ["high", True, None, 1.5])
def test_a_rule_is_an_int_or_a_function(rule):
    """Found when the rule is made and not at the first message."""
    with pytest.raises(ConfigurationError, match=r"order\.placed"):
        PriorityRules().add("order.placed", rule)


@pytest.mark.parametrize("answer", ["high", True, 1.5])
def test_a_function_that_gives_no_int_is_named(answer):
    """The error names the kind."""
    with pytest.raises(ConfigurationError, match=r"order\.placed"):
        PriorityRules({"order.placed": lambda _: answer}).priority_of(MESSAGE)
