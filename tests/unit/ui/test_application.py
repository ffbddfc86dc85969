"""The application: what it does with errors."""

import asyncio
import json

from lanes.errors import AwsError
from lanes.testing.clock import FakeClock
from lanes.ui.protection import TokenGuard
from lanes.ui.server import FailedRequests, make_application

EXPIRED = AwsError(operation="GetQueueAttributes", code="ExpiredToken", retryable=False)


class Session:
    """Notes that it was forgotten."""

    forgotten = 0

    def forget(self):
        self.forgotten += 1


class Routes:
    """One thing to ask, and one to change."""

    def __init__(self, ask):
        self.session = Session()
        self.reads = {"look": ask}
        self.changes = {"change": ask}


def call(answers, path, body=b"{}", *, query=b"", writes=True, others=()):
    """Ask as the page's scripts do; give the status and the document."""
    sent = []
    headers = {"host": "here:1", "x-lanes-token": "secret", "content-type": "application/json"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    guard = TokenGuard(hosts=frozenset({"here:1"}), token="secret", writes=writes)
    asyncio.run(make_application({"first": answers, **dict(others)}, guard)(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


def failing(error):
    """Give what fails."""

    def ask(_fields):
        raise error

    return ask


def test_an_answer_is_a_document():
    """Of what was asked."""
    assert call(Routes(lambda fields: {"kind": fields.text("kind")}), "/api/look", b'{"kind": "a"}') == (
        200,
        {"kind": "a"},
    )


def test_expired_credentials_are_looked_for_anew():
    """The next request connects with those that are there then; other errors leave the connection."""
    expired, denied = (
        Routes(failing(EXPIRED)),
        Routes(failing(AwsError(operation="X", code="AccessDenied", retryable=False))),
    )

    status, said = call(expired, "/api/look")
    call(denied, "/api/look")

    assert (status, said["needs_sign_in"], expired.session.forgotten) == (502, True, 1)
    assert denied.session.forgotten == 0


def test_a_mistake_of_ours_is_said_and_logged(caplog):
    """With its place in the log, and not in the answer."""
    status, said = call(Routes(failing(ZeroDivisionError("secret words"))), "/api/look")

    assert (status, "terminal" in said["title"]) == (500, True)
    assert "secret words" not in json.dumps(said)
    assert "secret words" in caplog.text


def test_without_write_every_change_is_refused():
    """Before it is even looked at."""
    asked = []
    answers = Routes(asked.append)

    assert call(answers, "/api/change", writes=False)[0] == 403
    assert asked == []
    assert call(answers, "/api/look", writes=False)[0] == 200


def test_each_stack_has_its_own_answers():
    """The first one without a name; an unknown one has none."""
    others = {"second": Routes(lambda _fields: "two")}
    first = Routes(lambda _fields: "one")

    assert call(first, "/api/look", others=others) == (200, "one")
    assert call(first, "/api/look", query=b"stack=second", others=others) == (200, "two")
    assert call(first, "/api/look", query=b"stack=third", others=others)[0] == 404


def test_an_error_that_repeats_is_logged_once_a_minute(caplog):
    """Each open page asks every few seconds."""
    clock = FakeClock()
    failures = FailedRequests(clock)
    for _ in range(61):
        failures.failed("look", ZeroDivisionError("by us"))
        clock.advance(2)
    failures.failed("change", ZeroDivisionError("by us"))

    lines = [record.getMessage() for record in caplog.records]
    assert [line.split("now: ")[1] for line in lines] == [f"{n} (ZeroDivisionError)" for n in (1, 31, 61, 1)]
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False, True]
