"""`lanes status`, `lanes send` and wrong usage, as an operator types them."""

import json

import pytest


def test_status_tells_each_lane_and_says_unknown_for_what_nobody_knows(lanes, typed):
    """There is no CloudWatch figure here: null for programs, a word for people."""
    rows = lanes.json("status")
    table = typed("status")

    assert [row["lane"] for row in rows] == ["HIGH", "MEDIUM", "MAIN"]
    assert all(row["handled_per_minute"] is None for row in rows)
    assert all(row["mapping"] == "none" for row in rows)
    assert all(row["wait_p99"] is None and row["running"] is None for row in rows)
    assert all(row["resources_away"] is None for row in rows)
    assert "not yet" in table.stdout
    assert table.stderr.startswith(
        "note: waits, failures, running invocations, resources away and messages without a handler unknown"
    )


def test_a_watched_status_is_a_line_for_each_look(typed):
    """For programs that follow it."""
    done = typed("--output", "json", "status", "--watch", "--times", "2", "--interval", "0.1s")

    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(look) for look in looks] == [3, 3]


def test_one_message_goes_to_the_lane_of_its_priority(typed):
    """A dry run tells the lane and sends nothing."""
    before = typed.json("status")[0]["waiting"]
    (planned,) = typed.json("send", "order.placed", '{"order": 7}', "--priority", "critical", "--dry-run")
    assert (planned["lane"], planned["kind"]) == ("HIGH", "order.placed")
    assert typed.json("status")[0]["waiting"] == before

    (sent,) = typed.json("send", "order.placed", '{"order": 7}', "--priority", "critical", "--id", "order-7")

    assert (sent["lane"], sent["id"]) == ("HIGH", "order-7")
    assert typed.json("status")[0]["waiting"] == before + 1
    assert typed.json("audit", "--limit", "1")[0]["action"] == "send"


def test_a_file_is_sent_line_by_line(typed):
    """From standard input here; each goes to its own lane."""
    lines = [{"kind": "a", "priority": 50}, {"kind": "b", "data": [1]}, {"kind": "c", "priority": "BULK"}]

    sent = typed.json("send", "--file", "-", text="\n".join(map(json.dumps, lines)))

    assert [row["lane"] for row in sent] == ["HIGH", "MEDIUM", "MAIN"]


def test_of_a_big_file_the_lanes_are_counted_for_people_and_each_line_told_to_programs(typed):
    """A row a message would flood the terminal."""
    text = "\n".join(json.dumps({"kind": "big", "priority": 50 * (n % 2)}) for n in range(2_200))

    planned = typed("send", "--file", "-", "--dry-run", text=text)
    shown = typed("send", "--file", "-", text=text)
    told = typed.json("send", "--file", "-", text=text)

    assert planned.stdout.count("1100") == 2
    assert len(shown.stdout.splitlines()) < 10
    assert shown.stdout.count("1100") == 4
    assert [row["line"] for row in told] == list(range(1, 2_201))
    assert all(row["message_id"] and row["error"] is None for row in told)


def test_the_process_ends_with_the_status_and_splits_its_streams(lanes):
    """Data on standard output, talk on standard error, 3 for a check that says no."""
    done = lanes("--output", "json", "check")

    assert done.returncode == 3
    assert {"verdict", "code", "subject", "found", "advice"} == set(json.loads(done.stdout)[0])
    assert "3 wrong" in done.stderr


def test_a_file_with_a_wrong_line_is_not_sent_at_all(typed):
    """The error names the line."""
    before = [row["waiting"] for row in typed.json("status")]

    done = typed("send", "--file", "-", text='{"kind": "a"}\n{"kidn": "b"}\n')

    assert done.returncode == 1
    assert "line 2: unknown key 'kidn'; did you mean 'kind'?" in done.stderr
    assert [row["waiting"] for row in typed.json("status")] == before


def test_a_stage_that_was_typed_goes_before_a_stack_that_a_variable_names(typed, monkeypatch):
    """Else a variable left over from yesterday would have another stack changed than the one that was typed."""
    monkeypatch.setitem(typed.variables, "LANES_STACK", "PriorityLanes")

    asked = typed("--stage", "prod", "status")

    assert (asked.returncode, "/lanes/PriorityLanes-prod" in asked.stderr) == (1, True)
    assert typed("--stage", "prod", "--stack", "PriorityLanes", "status").returncode == 0
    assert typed("status").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("pause", "HIHG"), 2, "did you mean 'HIGH'"),
        (("pause", "HIGH"), 1, "there must be exactly one"),
        (("send",), 2, "--file"),
        (("send", "a"), 2, "give DATA as JSON after the kind"),
        (("send", "a", "not json"), 2, "the data is not JSON"),
        (("send", "a", "1", "--priority", "urgent"), 2, "CRITICAL"),
        (("send", "a b", "1"), 2, "no spaces"),
        (("dead-letters", "list", "HIHG"), 2, "HIHG"),
        (("dead-letters", "list", "--since", "yesterday"), 2, "2h"),
        (("dead-letters", "redrive", "HIGH", "--hide", "0"), 2, "give 1s to 12h"),
        (("dead-letters", "redrive", "HIGH", "--hide", "13h"), 2, "13h"),
        (
            ("cancel", "--from-priority", "5", "--to-priority", "LOW"),
            2,
            "no priority is 5 or higher and -50 or",
        ),
        (("prioritize", "urgent", "--all"), 2, "CRITICAL"),
        (("outbox", "setup"), 2, "--database"),
        (("tail", "--lane", "HIHG"), 2, "HIHG"),
        (("ui", "--host", "192.0.2.1"), 2, "ssh -L"),
        (("status", "--watch", "--interval", "soon"), 2, "30s"),
        (("status", "--watch", "--interval", "0"), 2, "give at least 100ms"),
        (("--stack", "Another", "status"), 1, "/lanes/Another"),
        (("--profile", "nobody", "status"), 1, "nobody"),
        (("check",), 3, "wrong"),
        (("send", "--file", "/dev/null"), 0, "no message to send"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_explained_without_a_traceback(typed, arguments, status, text):
    """1 for what is wrong, 2 for wrong usage, 3 for a check that failed; the talk is on standard error."""
    done = typed(*arguments)

    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
