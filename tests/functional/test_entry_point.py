"""C6 of deploys: a function whose module can't be imported returns what comes within seconds, without an attempt."""

import importlib
import sys

import pytest

from lanes.aws import entry_point, runtime
from lanes.errors import ConfigurationError
from lanes.testing.function import InvocationContext, sqs_event
from tests.support.memory import World

GOOD = """
from lanes import Consumer
consumer = Consumer({runtime})
@consumer.handler("work")
def work(message):
    consumer.done.append(message.data)
consumer.done = []
lambda_handler = consumer.lambda_handler
"""


class Deployed:
    """A function of which the module's text can be replaced."""

    def __init__(self, folder, monkeypatch, **settings):
        self.world = World(**settings)
        self.module = folder / "their_handler.py"
        monkeypatch.setenv("LANES_HANDLER", "their_handler.lambda_handler")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setattr(runtime, "runtime_from_env", lambda: self.world.consumer._runtime)
        monkeypatch.setattr(entry_point, "_known", [])
        monkeypatch.setattr(sys, "test_runtime", self.world.consumer._runtime, raising=False)

    def deploy(self, text):
        """Start a new environment with this module."""
        self.module.write_text(text)
        sys.modules.pop("their_handler", None)
        importlib.invalidate_caches()
        entry_point._known.clear()

    def invoke(self, lane):
        """Hand over a batch as a mapping does; return the kept ids."""
        messages = self.world.receive(lane)
        context = InvocationContext(self.world.clock, seconds=30, request="r")
        answer = entry_point.lambda_handler(sqs_event(lane, messages), context)
        kept = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
        self.world.delete(lane, messages, kept=kept)
        return kept


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    """Give a function."""
    yield Deployed(tmp_path, monkeypatch)
    sys.modules.pop("their_handler", None)


@pytest.mark.parametrize(
    "text", ["import not_there", "raise SystemExit(3)", "lambda_handlr = 1", "def lambda_handler(:", "1 / 0"]
)
def test_a_batch_returns_within_seconds_if_the_module_cannot_be_imported(deployed, text):
    """No attempt is counted; the log has the trace, and the alarm of failed calls counts it."""
    deployed.deploy(text)
    world = deployed.world
    ids = {world.send("HIGH", group=group) for group in "ab"}

    assert deployed.invoke("HIGH") == ids

    assert world.queues.live["HIGH"].next_event_at() - world.clock.now == 1
    ((name, fields),) = world.recorder.problems
    assert (name, fields["records"]) == ("import_failed", 2)
    assert world.recorder.counts["ConsumerCallErrors"] == 1
    assert world.ledger.entries == {}


def test_messages_are_handled_soon_after_the_rollback(deployed):
    """Also those that were sent after it in the same group."""
    deployed.deploy("import not_there")
    world = deployed.world
    world.send("HIGH", data="before")
    began = world.clock.now
    while world.clock.now - began < 60:
        if world.queues.live["HIGH"].is_receivable():
            deployed.invoke("HIGH")
        world.clock.advance(0.5)

    deployed.deploy(GOOD.format(runtime="__import__('sys').test_runtime"))
    rolled_back_at = world.clock.now
    world.send("HIGH", data="after")
    done = []
    while len(done) < 2:
        if world.queues.live["HIGH"].is_receivable():
            deployed.invoke("HIGH")
            done = sys.modules["their_handler"].consumer.done
        world.clock.advance(0.5)

    assert done == ["before", "after"]
    assert world.clock.now - rolled_back_at < 15


def test_an_import_that_passes_later_needs_no_deploy(deployed):
    """The same environment tries again at its next event."""
    deployed.deploy("import not_there")
    world = deployed.world
    world.send("HIGH", data="one")
    deployed.invoke("HIGH")
    deployed.module.write_text(GOOD.format(runtime="__import__('sys').test_runtime"))
    importlib.invalidate_caches()
    world.clock.advance(2)

    assert deployed.invoke("HIGH") == set()


def test_an_event_of_nobody_raises_the_error_of_the_import(deployed):
    """There is no record to return."""
    deployed.deploy("import not_there")

    with pytest.raises(ModuleNotFoundError, match="not_there"):
        entry_point.lambda_handler({}, None)


def test_a_foreign_queue_is_refused(deployed):
    """An answer might delete its batch."""
    deployed.deploy("import not_there")
    deployed.world.send("HIGH")
    event = sqs_event("OTHER", deployed.world.receive("HIGH"))

    with pytest.raises(ConfigurationError, match="is not a lane"):
        entry_point.lambda_handler(event, None)


@pytest.mark.parametrize(
    "answer", [None, {}, {"batchItemFailures": None}, [], True, '{"batchItemFailures": []}']
)
def test_an_answer_that_would_delete_the_batch_fails(deployed, answer):
    """AWS takes nothing, or nothing known, for success of all records."""
    deployed.deploy(f"def lambda_handler(event, context): return {answer!r}")
    deployed.world.send("HIGH")

    with pytest.raises(TypeError, match=r"their_handler.lambda_handler answered a batch with .*Consumer"):
        deployed.invoke("HIGH")


def test_an_event_without_records_may_be_answered_with_anything(deployed):
    """Such as one that an operator's tool sends to see whether the function starts."""
    deployed.deploy("def lambda_handler(event, context): return 'pong'")

    assert entry_point.lambda_handler({"ping": 1}, None) == "pong"
