"""`lanes dead-letters list` on a narrow terminal, and verbs that take long."""

import io
import json
import re
import threading

import pytest
from rich.console import Console

from lanes.cli import printing
from lanes.cli.printing import busy, layout
from lanes.operate.dead_letters import DeadLetteredMessage, brief_rows

NOW = 1_800_000_000.0


def letter(number, *, reason="attempts exhausted", group="customer-4711", age=7_500):
    """Give a dead letter with the ids of a real one."""
    return DeadLetteredMessage(
        lane="MAIN",
        message_id=f"dead-{number}",
        receipt_handle="r",
        body=json.dumps({"type": "order.placed", "id": f"afbdfcd6-4c44-7dc9-9983-f7057c06d{number:03}"}),
        group=group,
        sent_at=NOW,
        first_received_at=0.0,
        receive_count=1,
        attributes={},
        note={"reason": reason, "error": "TimeoutError: late", "attempts": 5, "dead_lettered_at": NOW - age},
    )


def test_dead_letters_fit_a_hundred_columns():
    """With whole ids, to be copied."""
    out = Console(file=io.StringIO(), width=100)
    out.print(layout(brief_rows([letter(1), letter(2)], now=NOW, with_lane=False), out))

    text = out.file.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    assert re.findall(r"id|kind|group|age|attempts|reason", text.splitlines()[1]) == list(
        brief_rows([letter(1)], now=NOW, with_lane=False)[0]
    )
    assert text.count("afbdfcd6-4c44-7dc9-9983-f7057c06d00") == 2


@pytest.mark.parametrize("times", [1, 3])
def test_a_verb_that_takes_long_says_how_far_it_is(monkeypatch, capsys, times):
    """Also where no terminal shows a spinner; and it ends with its work."""
    monkeypatch.setattr(printing, "EVERY_SECONDS", 0.0)
    told, enough = [], threading.Event()

    def describe():
        told.append(1)
        if len(told) == times:
            enough.set()
        return f"step {len(told)}"

    with busy(describe):
        enough.wait(60)

    assert capsys.readouterr().err.splitlines()[:times] == [f"step {n + 1}" for n in range(times)]
    assert not [one for one in threading.enumerate() if one.name == printing.THREAD]


def test_a_terminal_shows_how_far_a_verb_is_too(monkeypatch):
    """The text beside the spinner is renewed."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(printing, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr", Terminal())
    told, enough = [], threading.Event()

    def describe():
        told.append(1)
        if len(told) == 3:
            enough.set()
        return f"step {len(told)}"

    with busy(describe):
        assert enough.wait(60)
