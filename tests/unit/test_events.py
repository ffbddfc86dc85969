"""One table of events: what the code writes is in it, and every reader knows all of it."""

import ast
import functools
import json
from pathlib import Path

import pytest

from lanes.events import Count, Event
from lanes.operate.descriptions import describe, labels
from lanes.operate.log import EventFilter, LogLine, read_event
from lanes.operate.trace import Sources, build_trace

ROOT = Path(__file__).parents[2]
FOLDERS = ("lanes", "lambdas", "spark_jobs", "local", "simulator", "benchmarks", "cdk", "tests/support")
TABLE = ROOT / "lanes" / "events.py"
WRITERS = tuple(ROOT / "lanes" / place for place in ("consumer", "aws/outbox_telemetry.py", "work"))
RECEIVER = ("telemetry", "_telemetry")


@functools.cache  # not at import, which every worker does
def modules():
    """Give the modules of the product with their trees."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    return [(file, ast.parse(file.read_text(encoding="utf-8"))) for file in files if file != TABLE]


def member(node):
    """Give the event that an expression names, None if it names none itself."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Event":
        return Event[node.attr]
    return Event(node.value) if isinstance(node, ast.Constant) else None


def is_emission(node):
    """Whether a node is a call `telemetry.event(...)` or `telemetry.problem(...)`."""
    method = node.func if isinstance(node, ast.Call) and node.args else None
    if not (isinstance(method, ast.Attribute) and method.attr in ("event", "problem")):
        return False
    receiver = method.value
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return name in RECEIVER


def test_every_event_is_written_somewhere():
    """The table keeps none that the code has dropped."""
    writers = [tree for file, tree in modules() if any(place in (file, *file.parents) for place in WRITERS)]
    named = {member(node) for tree in writers for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert named - {None} == set(Event)


def test_events_are_written_with_the_fields_of_the_table():
    """Each call with a name of its own: all of them, or, where it hands on a mapping too, no others."""
    written, is_partial = {}, set()
    for call in (node for _, tree in modules() for node in ast.walk(tree) if is_emission(node)):
        event = member(call.args[0])
        if event is not None:
            names = {keyword.arg for keyword in call.keywords}
            for fields in call.args[1:]:
                names |= (
                    {key and key.value for key in fields.keys} if isinstance(fields, ast.Dict) else {None}
                )
            is_partial |= {event} if None in names else set()
            written.setdefault(event, set()).update(names - {None})

    for event, names in written.items():
        assert names <= set(event.fields), event
        assert event in is_partial or names == set(event.fields), event


def test_event_names_are_literals_in_the_table_only():
    """Everywhere else they are members of `Event`."""
    names = set(Event)
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for file, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value in names or any(f'"{name}"' in node.value for name in names)
    ]

    assert not found


@pytest.mark.parametrize("event", Event)
def test_each_event_is_described(event):
    """With a name like its member's, a label, and one line."""
    assert event.name == event.value.upper()
    assert event.label
    assert event.description
    assert "\n" not in event.description


@pytest.mark.parametrize("event", Event)
def test_every_reader_knows_every_event(event):
    """The description, the tail's filter and the trace, each from a line with all fields."""
    message = {"message_id": "m", "id": "i", "kind": "k", "group": "g", "receive_count": 1}
    values = {
        **message,
        "lane": "MAIN",
        "messages": [message],
        "message_ids": ["m"],
        "sent_at": 1.0,
        "delay": 3,
    }
    fields = {name: values.get(name, 2) for name in event.fields}
    line = LogLine(id="1", at=10.0, text=json.dumps({"event": event, **fields}))
    read = read_event(line)

    label, reason = describe(event, {})
    assert label == event.label
    # Events of the process that runs the slots have nothing to add.
    assert bool(reason) or event.value.startswith("slot_")
    assert EventFilter(events=[event]).select(read) == read.by_message()
    trace = build_trace("m", Sources(events=read.by_message(), since=0.0, now=20.0))
    if read.by_message():
        assert [step.what for step in trace.steps if step.what != "sent"] == [event.label]
        assert event.counts is None or str(event.counts) in trace.status
    assert (event in labels()) != event.is_problem


def test_yields_of_both_causes_count_as_yields():
    """To a higher lane, and to other tenants of the lane."""
    assert {event for event in Event if event.counts is Count.YIELDED} == {
        Event.BATCH_YIELDED,
        Event.TENANT_YIELDED,
    }
