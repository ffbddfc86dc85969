"""Programs decide by codes: no verb prints a JSON document in which a sentence is alone."""

import json
import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from lanes.aws.runs import DynamoDBRuns
from lanes.cli.main import command
from lanes.outbox import SqlOutbox
from lanes.runs import Counts, Head, Mark
from tests.support.operating import drain, put_dead_letters

GROUP = "/aws/lambda/documented"
# Text that others wrote, which has no code to find.
WORDS_OF_OTHERS = {
    # The verb and the options as typed, the operator's reason, and that of the dead letters that were chosen.
    ("audit",): {"action", "target", "why", "reason"},
    ("overrides", "list"): {"why"},  # of the operator
    ("outbox", "audit"): {"filter"},  # the options as typed
    ("outbox", "setup"): {"made"},  # the address of a database
}
DOCUMENTS = {
    ("status",): (),
    ("check",): (),
    ("send",): ("order.placed", "{}", "--id", "documented"),
    ("dead-letters", "list"): (),
    ("dead-letters", "show"): ("order.placed-0",),
    ("dead-letters", "redrive"): ("MAIN", "--dry-run"),
    ("dead-letters", "delete"): ("MAIN", "--all", "--dry-run"),
    ("prioritize",): ("HIGH", "--kind", "none.*", "--dry-run"),
    ("cancel",): ("--kind", "none.*", "--why", "sent twice", "--yes", "--in", "lanes"),
    ("overrides", "list"): (),
    ("overrides", "withdraw"): ("OVERRIDE", "--dry-run"),
    ("overrides", "cancelled"): (),
    ("runs", "list"): (),
    ("runs", "show"): ("november",),
    ("runs", "watch"): ("november",),
    ("runs", "close"): ("november", "--why", "sent twice", "--dry-run"),
    ("audit",): (),
    ("trace",): ("order-7", "--log-group", GROUP),
    ("tail",): ("--log-group", GROUP, "--since", "1h", "--times", "1"),
    ("outbox", "setup"): (),
    ("outbox", "status"): (),
    ("outbox", "list"): (),
    ("outbox", "show"): ("entry-1",),
    ("outbox", "retry"): ("--all", "--dry-run"),
    ("outbox", "cleanup"): ("--dry-run",),
    ("outbox", "reconcile"): ("--after", "0s"),
    ("outbox", "relay"): ("--once",),
    ("outbox", "audit"): (),
    ("config", "show"): (),
}
"""Arguments by verb; those in capitals are filled in."""
ELSEWHERE = {
    ("new",): "prints no document",
    ("pause",): "names and states of AWS",
    ("resume",): "names and states of AWS",
    ("schedules", "list"): "names, expressions and times; in tests/cli/test_schedules.py",
    ("schedules", "pause"): "the same",
    ("schedules", "resume"): "the same",
    ("schedules", "run"): "a name and an id",
    ("scheduled", "list"): "ids, kinds and times; in tests/cli/test_schedules.py",
    ("scheduled", "cancel"): "the same",
    ("scheduled", "send-now"): "the same",
    ("ui",): "an address",
    ("work",): "the log of the function, with the names of events",
    ("local", "up"): "addresses",
    ("local", "run"): "prints no document",
    ("cdk",): "prints no document",
    ("simulate",): "numbers by lane, pattern and setting",
    ("bulk", "submit"): "the state of EMR Serverless, with its details",
}
"""Verbs whose documents need a deployed function or another service, or that print none."""


def prose_alone(value, allowed=(), *, path="document"):
    """Give the places of texts of several words without a code beside them."""
    if isinstance(value, list):
        found = [place for one in value for place in prose_alone(one, allowed, path=f"{path}[]")]
        return found + [f"{path}[]" for one in value if is_prose(one)]
    if not isinstance(value, dict):
        return []
    # A line of the log has the name of its event.
    has_code = any(value.get(name) and not is_prose(value[name]) for name in ("code", "event"))
    found = []
    for name, one in value.items():
        if is_prose(one) and not has_code and name not in allowed:
            found.append(f"{path}.{name}")
        found += prose_alone(one, allowed, path=f"{path}.{name}")
    return found


def is_prose(value):
    return isinstance(value, str) and " " in value


def verbs_of(command, path=()):
    """Give the paths of all verbs."""
    commands = getattr(command, "commands", None)
    if commands is None:
        return [path]
    return [verb for name, one in commands.items() for verb in verbs_of(one, (*path, name))]


@pytest.fixture(scope="module")
def filled(typed, client, deployment, tmp_path_factory):
    """Leave dead letters, an override, a log and an outbox; give the words to fill in."""
    for queues in deployment.queues.values():
        drain(client("sqs"), queues.dead_letter_url)
    put_dead_letters(client("sqs"), deployment, "MAIN", 4, groups=2)
    put_dead_letters(client("sqs"), deployment, "HIGH", 1, groups=1, kind="late", reason="no handler for it")
    typed("cancel", "--kind", "none.*", "--why", "sent twice", "--yes", "--in", "lanes")
    write_log(client("logs"))
    ended = DynamoDBRuns(table=deployment.table, client=client("dynamodb"))
    ended.open_run(Head(name="november", chunks=1))
    ended.fix_members("november", total=0, members="none")
    ended.seal_chunk(Mark("november", 1), 0, frozenset())
    ended.sealed("november")
    ended.end_run(Mark("november", 1), Counts())
    folder = tmp_path_factory.mktemp("documents")
    return {
        "OVERRIDE": typed.json("overrides", "list")[0]["override"],
        "database": fill_outbox(typed, f"sqlite:///{folder / 'app.db'}"),
    }


def write_log(logs):
    logs.create_log_group(logGroupName=GROUP)
    logs.create_log_stream(logGroupName=GROUP, logStreamName="one")
    failed = {"event": "message_failed", "lane": "MAIN", "message_id": "sqs-1", "id": "order-7"}
    line = json.dumps(failed | {"error": "TimeoutError: too slow", "receive_count": 1, "delay": 4})
    logs.put_log_events(
        logGroupName=GROUP,
        logStreamName="one",
        logEvents=[{"timestamp": int(time.time() * 1000) - 9_000, "message": line}],
    )


def fill_outbox(typed, address):
    typed("outbox", "--database", address, "setup")
    engine, outbox = sa.create_engine(address), SqlOutbox()
    with engine.begin() as connection:
        outbox.add(connection, "mail.sent", {"n": 1}, id="entry-1", priority=-100)
    engine.dispose()
    return address


def test_every_verb_is_looked_at():
    """A new one is entered above, with arguments that make it print."""
    assert sorted([*DOCUMENTS, *ELSEWHERE]) == sorted(verbs_of(command()))


@pytest.mark.parametrize("verb", DOCUMENTS, ids=" ".join)
def test_no_sentence_is_alone(typed, filled, verb):
    """Each has a code beside it, which stays the same when the sentence changes."""
    before = ("--database", filled["database"]) if verb[0] == "outbox" else ()
    arguments = [filled.get(one, one) for one in DOCUMENTS[verb]]
    done = typed("--output", "json", verb[0], *before, *verb[1:], *arguments)

    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert documents, done.stderr
    assert [prose_alone(one, WORDS_OF_OTHERS.get(verb, ())) for one in documents] == [[]] * len(documents)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"why": "it is late"}, ["document.why"]),
        ([{"lane": "MAIN", "inner": {"notes": ["it is late"]}}], ["document[].inner.notes[]"]),
        ({"why": "it is late", "code": "late"}, []),
        ({"why": "it is late", "code": "very late"}, ["document.why", "document.code"]),
        ({"at": str(timedelta(hours=1)), "state": "late"}, []),
    ],
)
def test_a_sentence_that_is_alone_is_found(document, expected):
    """Wherever it is in the document."""
    assert prose_alone(document) == expected
