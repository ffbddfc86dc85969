"""`lanes adopt` as operators type it, against an AWS server on this machine."""

import json

import pytest

from tests.support.operating import drain


@pytest.fixture
def orders(client):
    """A standard queue with five messages, one of them without a customer."""
    url = client("sqs").create_queue(QueueName="old-orders")["QueueUrl"]
    drain(client("sqs"), url)
    for body in ('{"customer": 1}', '{"customer": 2}', "plain", '{"customer": 1}', '{"customer": 3}'):
        client("sqs").send_message(QueueUrl=url, MessageBody=body)
    return url


@pytest.fixture
def main(client, deployment):
    """The last lane without messages; a call takes its messages."""
    url = deployment.queues["MAIN"].url
    drain(client("sqs"), url)
    return lambda: drain(client("sqs"), url)


def test_a_preview_receives_nothing(typed, client, orders, main):
    """The counts are shown, and no message is nearer to the dead-letter queue."""
    planned = typed.json("adopt", "old-orders", "--to", "main", "--group-by", "customer", "--dry-run")

    assert (planned["queue"], planned["lane"], planned["fifo"], planned["waiting"]) == (
        "old-orders", "MAIN", False, 5,
    )  # fmt: skip
    assert planned["max_receive_count"] is None
    assert main() == []
    counts = {one["Attributes"]["ApproximateReceiveCount"] for one in drain(client("sqs"), orders)}
    assert counts == {"1"}


def test_messages_are_moved_and_those_without_a_group_named(typed, orders, main):
    """Exit code 3; a repeat finds only those."""
    asked = ("adopt", orders, "--to", "MAIN", "--group-by", "customer", "--yes")
    first, second = (typed("--output", "json", *asked) for _ in range(2))

    assert (first.returncode, second.returncode) == (3, 3)
    row = {"queue": "old-orders", "lane": "MAIN", "without_group": 1, "failed": 0, "left": 1}
    assert json.loads(first.stdout) == row | {"adopted": 4}
    assert json.loads(second.stdout) == row | {"adopted": 0}
    assert "stays in old-orders: its body has no text and no whole number at customer" in first.stderr
    assert sorted(one["Attributes"]["MessageGroupId"] for one in main()) == ["1", "1", "2", "3"]
    entry = typed.json("audit")[0]
    assert (entry["action"], entry["target"], entry["outcome"]) == ("adopt", "MAIN", "done")


def test_a_preview_says_that_there_is_no_dead_letter_queue(typed, orders):
    """And what that means; nothing is called unknown."""
    done = typed("adopt", "old-orders", "--to", "main", "--group-by", "customer", "--dry-run")

    assert "old-orders has no dead-letter queue: a message may be received any number of times" in done.stderr
    assert ("none" in done.stdout, "unknown" in done.stdout) == (True, False)


def test_delayed_messages_are_left_and_named(typed, client, main):
    """Whoever deletes the empty queue would lose them."""
    url = client("sqs").create_queue(QueueName="old-delayed")["QueueUrl"]
    client("sqs").send_message(QueueUrl=url, MessageBody="now")
    client("sqs").send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    asked = ("adopt", "old-delayed", "--to", "MAIN", "--group", "all")

    planned = typed.json(*asked, "--dry-run")
    done = typed("--output", "json", *asked, "--yes")

    assert (planned["waiting"], planned["delayed"]) == (1, 1)
    assert (done.returncode, json.loads(done.stdout)["adopted"], json.loads(done.stdout)["left"]) == (0, 1, 1)
    assert "still delayed in old-delayed: about 1; SQS hands them out within 15 minutes" in done.stderr
    assert [one["Body"] for one in main()] == ["now"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nowhere", "--to", "MAIN"), "there is no queue 'nowhere'"),
        (("old-orders", "--to", "MAIN"), "is a standard queue, and a message of a lane needs a group"),
        (("old-orders", "--to", "none", "--group", "g"), "there is no lane 'none'"),
        (("MAIN-dead.fifo", "--to", "MAIN"), "use `lanes dead-letters redrive MAIN`"),
        (("old-orders", "--to", "MAIN", "--group", "g", "--kind", "a b"), "kind"),
    ],
)
def test_wrong_use_changes_nothing(typed, orders, main, arguments, why):
    """Exit code 2."""
    done = typed("adopt", *arguments, "--yes")

    assert (done.returncode, why in done.stderr, main()) == (2, True, []), done.stderr
