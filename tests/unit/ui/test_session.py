"""What the page works with, made once and again when it was forgotten."""

from types import SimpleNamespace

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.ui.session import Session

PARTS = (
    "dead_letters",
    "depths",
    "mappings",
    "figures",
    "audit",
    "state",
    "cloudwatch",
    "overrides",
    "holds",
    "runs",
)


def operations():
    """Give operations without anything behind them."""
    return SimpleNamespace(
        deployment=SimpleNamespace(config=LanesConfig(), scheduler=None), **dict.fromkeys(PARTS, object())
    )


def without_outbox():
    """Find no outbox."""
    raise ConfigurationError(["none"], source="stack")


def test_operations_are_made_once_until_they_are_forgotten():
    """Credentials are read anew then."""
    made = []
    session = Session(connect=lambda: made.append(operations()) or made[-1], outbox=without_outbox)

    assert session.operations is session.operations
    session.forget()
    assert session.operations is made[1]
    assert len(made) == 2


def test_an_outbox_is_found_once_or_is_none():
    """A stack may do without."""
    found = SimpleNamespace(store=1, operations=2, config=3)
    calls = []
    session = Session(connect=operations, outbox=lambda: calls.append(1) or found)

    assert session.has_outbox
    assert session.outbox is found
    assert calls == [1]
    assert not Session(connect=operations, outbox=without_outbox).has_outbox
