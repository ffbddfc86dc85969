"""`lanes dead-letters` as an operator types it."""

import json
import signal

import pytest

from lanes.aws.queues import NOTE_ATTRIBUTE
from lanes.operate.redrive import RunProgress
from tests.support.operating import drain, put_dead_letters


@pytest.fixture
def sqs(client, deployment):
    """Take away what other tests left."""
    sqs = client("sqs")
    for queues in deployment.queues.values():
        for url in (queues.url, queues.dead_letter_url):
            drain(sqs, url)
    return sqs


def count(sqs, url):
    """Count all messages of a queue."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in attributes.values())


def fresh_kind(request):
    """Give a kind of this test's own, since deduplication remembers messages of other tests."""
    return f"order.{request.node.name}"[:60]


def test_a_listing_shows_reasons_and_changes_nothing(lanes, typed, sqs, deployment, request):
    """Filters choose; another listing shows the same."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "MAIN", 6, groups=3, kind=kind)
    put_dead_letters(sqs, deployment, "HIGH", 2, groups=1, kind=f"{kind}.late", reason="no handler")

    everything = lanes.json("dead-letters", "list")
    late = typed.json("dead-letters", "list", "high", "--reason", "NO HANDLER", "--kind", "order.*.late")

    assert [row["lane"] for row in everything] == ["HIGH"] * 2 + ["MAIN"] * 6
    assert [row["id"] for row in late] == [f"{kind}.late-0", f"{kind}.late-1"]
    assert [row["id"] for row in typed.json("dead-letters", "list")] == [row["id"] for row in everything]
    assert count(sqs, deployment.queues["MAIN"].dead_letter_url) == 6


def test_a_limit_counts_the_rows_of_all_lanes(typed, sqs, deployment, request):
    """Highest first; a lane for which no row is left is named."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "HIGH", 2, groups=2, kind=f"{kind}.high")
    put_dead_letters(sqs, deployment, "MEDIUM", 4, groups=4, kind=f"{kind}.medium")
    put_dead_letters(sqs, deployment, "MAIN", 4, groups=4, kind=kind)

    done = typed("--output", "json", "dead-letters", "list", "--limit", "5")

    assert [row["lane"] for row in json.loads(done.stdout)] == ["HIGH"] * 2 + ["MEDIUM"] * 3
    assert "MAIN is not listed: the lanes above have 5 dead letters, the limit" in done.stderr


def test_one_is_shown_with_everything_that_was_noted(typed, sqs, deployment, request):
    """By the id of the message, of the dead letter or of the original."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "MEDIUM", 3, groups=1, kind=kind)

    shown = typed.json("dead-letters", "show", f"{kind}-1")

    assert (shown["lane"], shown["attempts"], shown["error"]) == ("MEDIUM", 5, "RuntimeError: no")
    assert json.loads(shown["body"])["data"] == {"number": 1}
    assert typed.json("dead-letters", "show", "original-1")["message_id"] == shown["message_id"]
    missing = typed("dead-letters", "show", "nobody")
    assert (missing.returncode, "nobody" in missing.stderr) == (3, True)


def test_no_dead_letter_hides_the_others(typed, sqs, deployment, request):
    """SQS moves a message with the note that its sender wrote, and an id may be half of a surrogate pair."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "MAIN", 2, groups=1, kind=kind)
    for number, note in enumerate(
        ('{"dead_lettered_at": "x", "attributes": 7}', "[]", '{"order": "' + "9" * 5_000 + '"}')
    ):
        sqs.send_message(
            QueueUrl=deployment.queues["MAIN"].dead_letter_url,
            MessageBody='{"type": "half \\ud800 \\u2028", "id": "\\udfff"}',
            MessageGroupId=f"foreign-{number}",
            MessageDeduplicationId=f"{kind}-foreign-{number}",
            MessageAttributes={NOTE_ATTRIBUTE: {"DataType": "String", "StringValue": note}},
        )

    listed, shown = typed("dead-letters", "list"), typed("dead-letters", "show", f"{kind}-1")

    assert (listed.returncode, shown.returncode) == (0, 0), listed.stderr + shown.stderr
    assert listed.stdout.encode("utf-8").count(b"udfff") == 3
    assert "\u2028" not in listed.stdout
    assert len(typed.json("dead-letters", "list")) == 5
    done = typed("dead-letters", "redrive", "main", "--yes")
    assert done.returncode == 0, done.stderr
    assert count(sqs, deployment.queues["MAIN"].dead_letter_url) == 0


def test_a_redrive_is_previewed_done_and_remembered(lanes, typed, sqs, deployment, request):
    """A dry run changes nothing; the real one leaves an entry in the audit trail."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "MAIN", 8, groups=4, kind=kind)
    put_dead_letters(sqs, deployment, "MAIN", 4, groups=4, kind=f"{kind}.other")
    dead = deployment.queues["MAIN"].dead_letter_url

    preview = typed.json("dead-letters", "redrive", "main", "--kind", kind, "--dry-run")
    reason = {"code": "attempts_exhausted", "reason": "attempts exhausted"}
    assert preview == [{"lane": "MAIN", "kind": kind, **reason, "dead_letters": 8}]
    assert count(sqs, dead) == 12

    done = lanes.json("dead-letters", "redrive", "main", "--kind", kind, "--yes", "--hide", "3s")

    counts = {"redriven": 8, "kept": 4, "failed": 0, "came_back": 0, "left": 4}
    assert done == {"lane": "MAIN", **counts}
    assert count(sqs, deployment.queues["MAIN"].url) == 8
    entry = typed.json("audit", "--limit", "1")[0]
    assert (entry["action"], entry["target"], entry["outcome"]) == ("dead-letters redrive", "MAIN", "done")
    assert entry["details"]["done"] == 8


def test_a_redrive_whose_messages_came_back_does_not_end_like_a_good_one(typed, sqs, deployment, request):
    """A script has to notice that the handler still refuses them."""
    put_dead_letters(sqs, deployment, "MAIN", 1, groups=1, kind=fresh_kind(request))
    run = RunProgress(done=3, returned=3, left=3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lanes.cli.dead_letters._run", lambda *_given: run)
        done = typed("dead-letters", "redrive", "MAIN", "--yes")

    assert (done.returncode, "3 came back" in done.stderr) == (3, True)


def test_nothing_is_redriven_or_deleted_where_nobody_can_confirm(typed, sqs, deployment, request):
    """A script has to say --yes; a delete has to say of what."""
    put_dead_letters(sqs, deployment, "MAIN", 2, groups=1, kind=fresh_kind(request))

    unconfirmed = typed("dead-letters", "redrive", "MAIN")
    unlimited = typed("dead-letters", "delete", "MAIN", "--yes")

    assert (unconfirmed.returncode, unlimited.returncode) == (2, 2)
    assert "--yes" in unconfirmed.stderr
    assert "--all" in unlimited.stderr
    assert count(sqs, deployment.queues["MAIN"].dead_letter_url) == 2


@pytest.mark.parametrize("verb", [("list",), ("redrive", "MAIN", "--dry-run"), ("delete", "MAIN", "--yes")])
def test_a_run_that_does_not_exist_is_named(typed, sqs, verb):
    """No dead letter would match, as if all members were well."""
    done = typed("dead-letters", *verb, "--run", "statemnets")

    assert done.returncode == 1
    assert "there is no run 'statemnets'" in done.stderr


def test_a_delete_takes_what_it_was_told_to(typed, sqs, deployment, request):
    """Those of another reason stay; a dry run deletes nothing."""
    kind = fresh_kind(request)
    put_dead_letters(sqs, deployment, "HIGH", 4, groups=2, kind=kind, reason="no handler")
    put_dead_letters(sqs, deployment, "HIGH", 3, groups=3, kind=f"{kind}.kept")
    dead = deployment.queues["HIGH"].dead_letter_url

    typed.json("dead-letters", "delete", "high", "--reason", "no handler", "--dry-run")
    assert count(sqs, dead) == 7

    done = typed.json("dead-letters", "delete", "high", "--reason", "no handler", "--yes", "--hide", "3s")

    assert (done["deleted"], done["left"]) == (4, 3)
    assert {row["kind"] for row in typed.json("dead-letters", "list", "high")} == {f"{kind}.kept"}
    assert typed.json("audit", "--limit", "1")[0]["action"] == "dead-letters delete"


def test_an_interrupted_redrive_says_how_far_it_was_and_gives_back(lanes, typed, sqs, deployment, request):
    """Status 130, an entry that says interrupted, and nothing hidden."""
    put_dead_letters(sqs, deployment, "MAIN", 300, groups=300, kind=fresh_kind(request))
    queues = deployment.queues["MAIN"]
    with lanes.start("dead-letters", "redrive", "MAIN", "--yes", "--rate", "20") as process:
        while process.poll() is None and count(sqs, queues.url) == 0:
            pass
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=60)

    assert process.returncode == 130, talk
    assert "interrupted after" in talk
    attributes = sqs.get_queue_attributes(
        QueueUrl=queues.dead_letter_url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
    )["Attributes"]
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert typed.json("audit", "--limit", "1")[0]["outcome"] == "interrupted"
