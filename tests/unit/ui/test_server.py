"""The requests of the page: their fields, their answers and errors, and the connection behind them."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.errors import AwsError, ConfigurationError, LanesError
from lanes.testing.clock import FakeClock
from lanes.ui.fields import Fields
from lanes.ui.protection import TokenGuard
from lanes.ui.server import FailedRequests, make_application
from lanes.ui.session import Session, fault_of

EXPIRED = AwsError(operation="GetQueueAttributes", code="ExpiredToken", retryable=False)


class Connection:
    """Notes that it was forgotten."""

    forgotten = 0

    def forget(self):
        self.forgotten += 1


class Routes:
    """One thing to ask, and one to change."""

    def __init__(self, ask):
        self.session = Connection()
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


def aws(code, **more):
    """An error of a call."""
    return AwsError(operation="GetQueueAttributes", code=code, message="said", retryable=False, **more)


@pytest.mark.parametrize(
    ("code", "title", "signs_in"),
    [
        ("UnauthorizedSSOTokenError", "Your AWS credentials have expired or are not valid", True),
        ("NoCredentialsError", "There are no AWS credentials", True),
        ("AccessDenied", "You may not call GetQueueAttributes", False),
    ],
)
def test_errors_of_aws_are_told_by_what_they_mean(code, title, signs_in):
    """As the command tells them; what AWS said is kept."""
    fault = fault_of(aws(code))

    assert (fault.title, fault.needs_sign_in, fault.status) == (title, signs_in, 502)
    assert fault.details == f"GetQueueAttributes: {code}: said"


def test_expired_credentials_say_what_to_do():
    """In words that can be typed."""
    assert "aws sso login" in fault_of(aws("ExpiredToken")).advice


def test_other_errors_explain_themselves():
    """As the command prints them, without its lines."""
    wrong = fault_of(ConfigurationError(["one", "two"], source="x"))

    assert (wrong.status, wrong.title) == (400, "one; two")
    assert fault_of(LanesError("somebody else has changed it")).status == 409


def test_fields_are_read_by_name_and_type():
    """An empty text counts as left out."""
    fields = Fields.of_body(b'{"kind": "a", "group": "", "limit": "7", "exact": true, "ids": ["x"]}')

    assert (fields.text("kind"), fields.text("group"), fields.integer("limit")) == ("a", None, 7)
    assert (fields.flag("exact"), fields.flag("other")) == (True, False)
    assert (fields.texts("ids"), fields.texts("more")) == (["x"], [])
    assert fields.integer("nothing") is None


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda fields: fields.text("number"), "number is 5; give a text"),
        (lambda fields: fields.required("nothing"), "nothing is missing"),
        (lambda fields: fields.choice("text", ["a", "b"]), "text is 'word'; give one of a, b"),
        (lambda fields: fields.texts("text"), "give a list of texts"),
        (lambda fields: fields.texts("list", ["a"]), "list is 'x'; give one of a"),
        (lambda fields: fields.integer("text"), "give a whole number"),
        (lambda fields: fields.integer("truth"), "give a whole number"),
        (lambda fields: fields.integer("number", min_=6), "give a whole number of at least 6"),
        (lambda fields: fields.flag("text"), "give true or false"),
    ],
    ids=range(9),
)
def test_what_is_of_another_type_is_refused(read, problem):
    """With the field's name."""
    fields = Fields({"number": 5, "text": "word", "list": ["x"], "truth": True})

    with pytest.raises(ConfigurationError, match=problem):
        read(fields)


@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body):
    """However it is broken."""
    with pytest.raises(ConfigurationError):
        Fields.of_body(body)
