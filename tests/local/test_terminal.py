"""What the terminal of `lanes local up` shows of the functions."""

import io
import json
from pathlib import Path

import pytest

from local.terminal import Terminal

LOGS = Path("/an/app/build/local/logs")


@pytest.fixture
def shown():
    """The terminal and what it has written."""
    return io.StringIO()


@pytest.fixture
def terminal(shown):
    """A terminal of an app with two kinds."""
    made = Terminal(shown, LOGS)
    made.kinds = {"order.placed", "payment.captured"}
    return made


def tell(terminal, event, **fields):
    """Write an event of the library's log."""
    terminal("Orders", json.dumps({"level": "INFO", "event": event, **fields}))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "Init failed: NameError: name 'x' is not defined",
            "Init failed: NameError: name 'x' is not defined",
        ),
        (
            "Init failed: ConfigurationError: handler:\n  - kind",
            "Init failed: ConfigurationError: handler:\n  - kind",
        ),
        ("RequestId: 7 Error: Runtime exited with status -9", "Runtime exited with status -9"),
        ("RequestId: 7 Error: Task timed out after 30.00 seconds", "Task timed out after 30.00 seconds"),
    ],
)
def test_a_function_in_trouble_is_shown_once_until_its_code_is_another_one(terminal, shown, line, told):
    """With the file that has the rest."""
    once = (
        f"Orders: {told}\n  see {LOGS / 'Orders.log'}\n"
        "  its messages return when their visibility timeout ends, or at once when you save a correction\n"
    )
    for _ in range(2):
        terminal("Orders", line)
    assert shown.getvalue() == once

    terminal.forget("Orders")
    terminal("Orders", line)
    assert shown.getvalue() == 2 * once


def test_lines_of_handlers_are_shown_and_those_of_the_platform_are_not(terminal, shown):
    """A JSON line of the handler's own logger as well; none can hide or move text."""
    own = '{"level": "INFO", "message": "hello"}'
    for line in (
        "START RequestId: 7 Version: 1",
        "shipping order 7",
        own,
        "\x1b[2Jgone",
        "REPORT RequestId: 7\t",
    ):
        terminal("Orders", line)
    tell(terminal, "message_handled", kind="order.placed", id="o-7")
    terminal("Orders", '{"_aws": {"Timestamp": 1}, "lane": "MAIN"}')

    assert shown.getvalue() == f"shipping order 7\n{own}\n\\x1b[2Jgone\n"


def test_the_trace_of_an_import_that_failed_is_shown_without_frames_that_say_nothing(terminal, shown):
    """The runtime writes it as one line, after a warning about itself."""
    terminal(
        "Orders", "[WARNING]\t2026-11-29T04:08:24.446Z\t\tLAMBDA_WARNING: Unhandled exception. The most ..."
    )
    frames = ['  File "<frozen importlib._bootstrap>", line 1204, in _gcd_import']
    frames += ['  File "/lib/python3.14/importlib/__init__.py", line 126, in import_module', "    return x"]
    frames += ['  File "/an/app/function/handler.py", line 7, in <module>', "    consumer = Consumre()"]
    terminal("Orders", "\r".join(["[ERROR] NameError: name 'Consumre' is not defined", *frames]))

    assert shown.getvalue().splitlines() == [
        "[ERROR] NameError: name 'Consumre' is not defined",
        '  File "/an/app/function/handler.py", line 7, in <module>',
        "    consumer = Consumre()",
    ]


def test_each_failure_is_shown_with_its_attempt_and_the_end_of_its_trace(terminal, shown):
    """And the dead letter that follows."""
    message = {"kind": "order.placed", "id": "o-7"}
    tell(terminal, "message_failed", **message, attempt=2, error="ValueError: no customer", delay=4)
    tell(
        terminal,
        "message_dead_lettered",
        **message,
        reason="attempts exhausted",
        error="ValueError: no customer",
    )

    assert shown.getvalue() == (
        "order.placed o-7: attempt 2 failed: ValueError: no customer\n"
        "order.placed o-7: dead letter, attempts exhausted: ValueError: no customer\n"
    )


def test_a_kind_or_an_id_writes_no_line_of_its_own(terminal, shown):
    """It would look like an order that was handled."""
    tell(terminal, "message_failed", kind="a\nb", id="c\r\nd", attempt=1, error="E: f\ng")
    tell(terminal, "batch_returned", reason="unknown_kind", messages=[{"kind": "h\ni"}])
    tell(terminal, "message_dead_lettered", kind="", id="7", reason="not an event")

    assert shown.getvalue() == (
        r"a\nb c\r\nd: attempt 1 failed: E: f"
        "\ng\n"
        r"h\ni: no handler"
        "\n7: dead letter, not an event\n"
    )


def test_a_kind_without_a_handler_is_shown_once_with_the_one_that_was_meant(terminal, shown):
    """Other reasons of a return say nothing."""
    for _ in range(2):
        messages = [{"kind": "order.placd", "id": "1"}, {"kind": "xyz", "id": "2"}]
        tell(terminal, "batch_returned", reason="unknown_kind", messages=messages)
    tell(terminal, "batch_returned", reason="no_time", messages=[{"kind": "order.placed"}])

    assert shown.getvalue() == "order.placd: no handler; did you mean order.placed?\nxyz: no handler\n"
