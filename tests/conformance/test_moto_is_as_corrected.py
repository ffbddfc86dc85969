"""Guards: what the corrections replace or rely on in moto is still there, under the same name."""

import ast
import inspect
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
from moto.core.responses import BaseResponse
from moto.moto_server import threaded_moto_server, werkzeug_app
from moto.sqs import models
from werkzeug.serving import WSGIRequestHandler

from local.corrections import MotoVersionError, check_moto_version, install, sqs_operations


def methods_of(module, class_name):
    """Return the parameters of each method, read from the source so that no correction shows."""
    source = Path(find_spec(module).origin).read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return {
                method.name: [argument.arg for argument in method.args.args]
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            }
    raise AssertionError(f"{module}.{class_name} is gone")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("create_queue", ["self", "name", "tags"]),
        ("set_queue_attributes", ["self", "queue_name", "attributes"]),
        ("get_queue_attributes", ["self", "queue_name", "attribute_names"]),
        ("purge_queue", ["self", "queue_name"]),
        ("delete_queue", ["self", "queue_name"]),
        ("get_queue", ["self", "queue_name"]),
        (
            "send_message",
            [
                "self",
                "queue_name",
                "message_body",
                "message_attributes",
                "delay_seconds",
                "deduplication_id",
                "group_id",
                "system_attributes",
                "validate_group_id",
            ],
        ),
    ],
)
def test_the_backend_has_the_methods_that_are_corrected(name, parameters):
    """Same names, same parameters."""
    assert methods_of("moto.sqs.models", "SQSBackend")[name] == parameters


@pytest.mark.parametrize(
    "name",
    [
        "add_message",
        "approximate_number_of_messages",
        "approximate_number_of_messages_not_visible",
        "approximate_number_of_messages_delayed",
        "attribute_md5",
    ],
)
def test_queue_and_message_have_what_is_corrected(name):
    """Counts, the way in, and the digest that is reused."""
    assert name in methods_of("moto.sqs.models", "Queue") | methods_of("moto.sqs.models", "Message")


def test_moto_answers_each_routed_operation():
    """Under the name that is replaced."""
    methods = methods_of("moto.sqs.responses", "SQSResponse")

    routed = {operation.__name__ for operation in sqs_operations.OPERATIONS.values()}
    assert methods.keys() >= routed | {"_get_queue_name", "sqs_backend"}


def test_a_queue_keeps_its_attributes_where_the_model_reads_them():
    """Private and plain attributes of a new queue."""
    queue = models.Queue("a.fifo", region="eu-central-1", account_id="1", FifoQueue="true")
    expected = {
        "visibility_timeout": 30,
        "delay_seconds": 0,
        "message_retention_period": 345_600,
        "maximum_message_size": 1_048_576,
        "receive_message_wait_time_seconds": 0,
        "content_based_deduplication": False,
        "deduplication_scope": "queue",
        "redrive_policy": None,
        "fifo_queue": True,
        "_messages": [],
    }

    assert {name: getattr(queue, name) for name in expected} == expected
    assert queue._messages_lock is not None


def test_the_server_is_built_of_the_classes_that_are_corrected():
    """One request handler and one application, in both ways to start a server."""
    assert threaded_moto_server.MotoRequestHandler is werkzeug_app.MotoRequestHandler
    assert threaded_moto_server.DomainDispatcherApplication is werkzeug_app.DomainDispatcherApplication
    assert {"run_wsgi", "make_environ", "server_version"} <= vars(WSGIRequestHandler).keys()
    assert 'send_header("Connection", "close")' in inspect.getsource(WSGIRequestHandler)
    assert "__call__" in methods_of("moto.moto_server.werkzeug_app", "DomainDispatcherApplication")


def test_moto_still_finds_account_and_region_as_the_shortcut_does():
    """The order of moto's sources of account and region is the one that was read."""
    account = textwrap.dedent(inspect.getsource(BaseResponse.get_current_account))
    region = textwrap.dedent(inspect.getsource(BaseResponse.get_region_from_url))

    assert "MOTO_ACCOUNT_ID" in account
    assert "x-moto-account-id" in account
    assert "get_account_id_from" in account
    assert 'split(",")[0].split("/")[2]' in region


def test_installing_twice_changes_nothing():
    """The second call finds the first one's work."""
    install()
    before = (models.SQSBackend.send_message, werkzeug_app.MotoRequestHandler.run_wsgi)
    install()

    assert (models.SQSBackend.send_message, werkzeug_app.MotoRequestHandler.run_wsgi) == before


def test_another_moto_is_refused():
    """With both versions in the message."""
    with pytest.raises(MotoVersionError, match=r"moto 5\.2\.6 is installed.*5\.2\.5"):
        check_moto_version("5.2.6")
