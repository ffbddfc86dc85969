"""`lanes trace` and `lanes tail`, as an operator types them, over a log that the test has written."""

import json
import signal
import time

import pytest

from lanes.aws.ledger import DynamoDBLedger
from lanes.consumer.ledger import Ending, Entry

GROUP = "/aws/lambda/traced"
HERE = ("--log-group", GROUP)


def event(name, **fields):
    return {"level": "INFO", "event": name, "lane": "MAIN", **fields}


ME = {"message_id": "sqs-1", "id": "order-7", "kind": "order.placed", "group": "customer-3"}
STORY = [
    (-60, event("batch_yielded", to_lane="HIGH", records=1, delay=9, messages=[{**ME, "receive_count": 1}])),
    (-55, event("batch_woken", by_lane="HIGH", records=1, message_ids=["sqs-1"])),
    (-50, event("message_failed", attempt=1, receive_count=2, delay=4, error="TimeoutError: slow", **ME)),
    (-40, event("message_handled", attempt=2, receive_count=4, lane="MAIN", **ME)),
    (-30, event("message_handled", attempt=1, receive_count=1, **{**ME, "id": "order-8", "message_id": "x"})),
    (-20, {"_aws": {"Timestamp": 1}, "HandledMessages": 1}),
]


@pytest.fixture(scope="module")
def log(client):
    """Write lines, so many seconds from now, into a stream of their own."""
    logs = client("logs")
    logs.create_log_group(logGroupName=GROUP)
    logs.create_log_stream(logGroupName=GROUP, logStreamName="one")

    def write(*lines):
        now = time.time()
        events = [{"timestamp": int((now + at) * 1000), "message": json.dumps(line)} for at, line in lines]
        logs.put_log_events(logGroupName=GROUP, logStreamName="one", logEvents=events)

    write(*STORY)
    return write


def test_a_message_is_traced_by_its_id(lanes, log):
    """One line for each thing that happened, in order, and where it is now."""
    done = lanes("trace", "order-7", *HERE)

    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[line.index("MAIN") + 1] for line in lines if "MAIN" in line] == [
        "1", "woken", "2", "3", "4",
    ]  # fmt: skip
    assert "to HIGH, which has a backlog; parked for 9 s unless woken" in done.stdout
    assert "TimeoutError: slow; next attempt in 4 s at the earliest" in done.stdout
    assert "throttled" in done.stdout
    assert done.stdout.splitlines()[-1].strip() == "now  done (receives 4, handled 1, failed 1, yielded 1)"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_trace_for_programs(typed, log):
    """The same by the id of SQS, as one document."""
    found = typed.json("trace", "sqs-1", *HERE)

    assert (found["id"], found["message_ids"]) == ("order-7", ["sqs-1"])
    steps = [(step["what"], step["receive"], step["is_seen"]) for step in found["steps"]]
    assert steps == [
        ("yielded", "1", True),
        ("woken", "", True),
        ("failed", "2", True),
        ("throttled", "3", False),
        ("handled", "4", True),
    ]


def test_what_only_the_ledger_knows_is_told(typed, client, deployment, log):
    """As where the log's time is over."""
    entry = Entry(
        lane="MEDIUM", message_id="sqs-5", yields=2, ending=Ending.YIELDED, noted_receive=2, noted_at=1.0
    )
    DynamoDBLedger(table=deployment.table, client=client("dynamodb")).note([entry])

    found = typed.json("trace", "sqs-5", *HERE)

    assert "the ledger of MEDIUM" in found["status"]
    assert found["steps"] == []


def test_an_id_never_seen_says_what_to_look_at(typed, log):
    """Status 3, and what nothing can mean."""
    done = typed("trace", "order-9", *HERE)
    document = typed("--output", "json", "trace", "order-9", *HERE)

    assert (done.returncode, done.stdout) == (3, "")
    for word in ("--since 14d", "lanes status", "dead-letters show order-9"):
        assert word in done.stderr
    assert (document.returncode, json.loads(document.stdout)["steps"]) == (3, [])


def test_a_log_in_a_file_is_traced_without_any_call(typed, tmp_path):
    """As a run on this machine leaves it; nothing else is asked."""
    file = tmp_path / "function.log"
    written = [{**fields, "timestamp": f"2027-01-15 08:00:{60 + at:02},000+0000"} for at, fields in STORY]
    file.write_text("\n".join(map(json.dumps, written)), encoding="utf-8")

    found = typed.json("--stack", "None", "trace", "order-7", "--log-file", str(file))
    nothing = typed("--stack", "None", "trace", "order-9", "--log-file", str(file))

    # The files do not say which engine wrote them.
    assert [step["what"] for step in found["steps"]] == [
        "yielded",
        "woken",
        "failed",
        "not reported",
        "handled",
    ]
    assert (nothing.returncode, nothing.stderr) == (3, "the files do not mention order-9\n")


def test_the_tail_shows_each_event_on_a_line(typed, log):
    """What a filter means, and no line that is no event."""
    everything = typed("tail", "--since", "2m", "--times", "1", *HERE)
    some = typed("tail", "--since", "2m", "--times", "1", "--event", "failed", "--lane", "main", *HERE)

    lines = everything.stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["yielded", "woken", "failed", "handled", "handled"]
    assert "order.placed  customer-3  order-7" in lines[0]
    assert "TimeoutError: slow" in some.stdout
    assert len(some.stdout.splitlines()) == 1
    assert "\x1b" not in everything.stdout


def test_a_tail_for_programs_goes_on_and_repeats_nothing(lanes, log):
    """JSON Lines as they come, until interrupted: then status 130."""
    process = lanes.start("--output", "json", "tail", "--since", "2m", "--interval", "0.2s", *HERE)
    first = [json.loads(process.stdout.readline()) for _ in range(5)]
    log((0, event("message_handled", attempt=1, receive_count=1, **{**ME, "id": "order-99"})))

    later = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest, talk = process.communicate(timeout=60)

    assert [line["event"] for line in first] == [
        "batch_yielded", "batch_woken", "message_failed", "message_handled", "message_handled",
    ]  # fmt: skip
    assert (later["id"], "at" in later) == ("order-99", True)
    assert (process.returncode, rest) == (130, ""), talk


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("trace", "x"), 1, "no event source mapping"),
        (("tail", "--times", "1"), 1, "no event source mapping"),
        (("trace", "x", "--log-group", "/none"), 1, "ResourceNotFoundException"),
        (("tail", "--lane", "MIAN", *HERE), 2, "did you mean 'MAIN'"),
        (("tail", "--since", "early", *HERE), 2, "2h"),
        (("tail", "--interval", "often", *HERE), 2, "30s"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_mistakes_are_explained(typed, log, arguments, status, text):
    """Without a traceback."""
    done = typed(*arguments)

    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
