"""`lanes trace` with the id of a trace, over a file with the log."""

import json

import pytest

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def log(tmp_path):
    """The log of two messages of one trace."""
    events = [
        {
            "event": "message_handled",
            "timestamp": f"2026-11-20 12:00:0{place},000+0000",
            "lane": lane,
            "message_id": f"sqs-{kind}",
            "id": f"{kind}-7",
            "kind": kind,
            "group": "g",
            "attempt": 1,
            "receive_count": 1,
            "trace_id": TRACE,
        }
        for place, (kind, lane) in enumerate([("order.placed", "MEDIUM"), ("receipt.printed", "HIGH")])
    ]
    path = tmp_path / "function.log"
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    return path


def test_the_id_of_a_trace_lists_its_messages(typed, log):
    """In the order of time, each by its own id, which leads on."""
    done = typed("--output", "json", "trace", f"1-{TRACE[:8]}-{TRACE[8:]}", "--log-file", str(log))

    assert done.returncode == 0, done.stderr
    assert [(one["lane"], one["id"], one["what"]) for one in json.loads(done.stdout)] == [
        ("MEDIUM", "order.placed-7", "handled"),
        ("HIGH", "receipt.printed-7", "handled"),
    ]


def test_people_get_a_table_and_the_next_step(typed, log):
    """Data on standard output, talk on standard error."""
    done = typed("trace", TRACE, "--log-file", str(log))

    assert done.returncode == 0, done.stderr
    assert "receipt.printed-7" in done.stdout
    assert "lanes trace" in done.stderr


def test_a_trace_that_nobody_knows_ends_as_a_message_does(typed, log):
    """With 3."""
    assert typed("trace", "a" * 32, "--log-file", str(log)).returncode == 3


@pytest.mark.parametrize("also", [[], ["order-7"]])
def test_a_run_has_no_trace_and_the_error_says_where_its_messages_are(typed, also):
    """Before a missing id is noticed."""
    done = typed("trace", *also, "--run", "nov")

    assert done.returncode == 2
    assert "`lanes dead-letters list --run nov`" in done.stderr
    assert "`lanes runs show nov`" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        'Init failed: {"errorMessage": "No module named \'shop\'", "errorType": "Runtime.ImportModuleError"}',
        "INIT_REPORT Init Duration: 1236.04 ms\tPhase: init\tStatus: timeout",
        '{"time": "t", "type": "platform.initReport", "record": {"phase": "init", "status": "error"}}',
    ],
)
def test_a_function_that_fails_to_start_is_named(typed, tmp_path, line):
    """Its messages have no event, and the cause is in the same log."""
    path = tmp_path / "function.log"
    path.write_text(f'{{"timestamp": "2026-11-20 12:00:00,000+0000"}}\n{line}\n{line}\n')
    done = typed("trace", "order-7", "--log-file", str(path))

    assert done.returncode == 3
    assert "the function failed to start 2 times, the last time at 2026-11-20 12:00:00.000Z: " in done.stderr
    assert " ".join(line.split())[:100] in done.stderr


def test_a_start_that_succeeds_is_no_failure(typed, tmp_path):
    """Provisioned environments report theirs as well."""
    path = tmp_path / "function.log"
    path.write_text("INIT_REPORT Init Duration: 310 ms\tPhase: init\tStatus: success\n")

    assert "failed to start" not in typed("trace", "order-7", "--log-file", str(path)).stderr
