"""
Correction of moto 5.2.5's server: message operations on FIFO queues skip its general request handling.

Parsing and serialising by the service model cost moto's server several times the operation itself. A
JSON request for a known FIFO queue is answered at once; everything else, every refusal included, takes
moto's way and gets moto's answer.
"""

import base64
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from moto import settings
from moto.iam.models import get_account_id_from
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.sqs.exceptions import SQSException
from moto.sqs.models import Queue, sqs_backends

from . import sqs_operations
from .moto_version import check_moto_version

_MARK = "_lanes_sqs_shortcut"
_PROTOCOL = "application/x-amz-json-1.0"
_TARGET = "AmazonSQS."

Environ = dict[str, Any]
Application = Callable[[Any, Environ, Callable[..., Any]], Iterable[bytes]]


def install() -> None:
    """
    Put the shortcut in front of moto's server in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: another moto is installed than the one this correction was written for.
    """
    check_moto_version()
    if getattr(DomainDispatcherApplication, _MARK, False):
        return
    DomainDispatcherApplication.__call__ = _with_shortcut(DomainDispatcherApplication.__call__)
    setattr(DomainDispatcherApplication, _MARK, True)


def _with_shortcut(original: Application) -> Application:
    def call(application: Any, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        operation = sqs_operations.OPERATIONS.get(environ.get("HTTP_X_AMZ_TARGET", "").removeprefix(_TARGET))
        answer = _answer(operation, environ) if operation is not None and _is_plain(environ) else None
        if answer is None:
            return original(application, environ, start_response)
        content = json.dumps(answer, default=_blob).encode()
        start_response("200 OK", _headers(content))
        return [content]

    return call


def _is_plain(environ: Environ) -> bool:
    # Settings by which moto takes another account or region than the credential's, or checks permissions.
    return (
        environ.get("CONTENT_TYPE") == _PROTOCOL
        and environ.get("HTTP_CONTENT_ENCODING") is None
        and environ.get("HTTP_X_MOTO_ACCOUNT_ID") is None
        and "MOTO_ACCOUNT_ID" not in os.environ
        and "region/" not in environ.get("HTTP_USER_AGENT", "")
        and math.isinf(settings.INITIAL_NO_AUTH_ACTION_COUNT)
    )


def _answer(
    operation: Callable[[Queue, dict[str, Any]], dict[str, Any]], environ: Environ
) -> dict[str, Any] | None:
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    # Binary attributes travel as base64 and are moto's to decode.
    if b'"BinaryValue"' in body:
        return None
    parameters = json.loads(body)
    queue = _find_queue(environ.get("HTTP_AUTHORIZATION", ""), parameters.get("QueueUrl", ""))
    if queue is None:
        return None
    try:
        return operation(queue, parameters)
    except SQSException:
        # Nothing has changed when an operation refuses: moto's way meets the same refusal and words it.
        return None


def _find_queue(authorization: str, queue_url: str) -> Queue | None:
    _, _, credential = authorization.partition("Credential=")
    scope = credential.partition(",")[0].split("/")
    if len(scope) != len(("key", "date", "region", "service", "terminator")):
        return None
    backend = sqs_backends[get_account_id_from(scope[0])][scope[2]]
    queue = backend.queues.get(queue_url.rpartition("/")[2])
    return queue if queue is not None and queue.fifo_queue else None


def _headers(content: bytes) -> list[tuple[str, str]]:
    return [
        ("Content-Type", _PROTOCOL),
        ("Content-Length", str(len(content))),
        ("x-amzn-RequestId", str(uuid.uuid4())),
    ]


def _blob(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no place in an answer of SQS")
