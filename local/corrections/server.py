"""
Corrections of moto's server: what it costs, and what it answers where it lacks an action.

* Connections stay open between requests. Werkzeug's development server closes each, so every AWS call pays for a new
  one and a new thread, which costs more than the call. Here the whole request is read before it is handled, so that the
  next one starts clean, and the answer leaves in one write. Requests without a plain length take the usual way.
* The services in the folder of its package and the methods of a service are looked up once: a fifth of a request.
* Message operations on FIFO queues skip the general request handling: parsing and serialising by the service model cost
  several times the operation itself. A JSON request for a known FIFO queue is answered at once; everything else, every
  refusal included, takes moto's way and gets moto's answer.
* An action that moto lacks or fails at is an error of its service, in place of a page of HTML that no client can read,
  tried again where its status is 500.
"""

import base64
import functools
import io
import json
import logging
import math
import os
import uuid
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from moto import backends, settings
from moto.core import responses
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.iam.models import get_account_id_from
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler
from moto.sqs.exceptions import SQSException
from moto.sqs.models import Queue, sqs_backends
from werkzeug.exceptions import HTTPException, InternalServerError

from . import sqs_operations

_SERVER_LOG = "werkzeug"
_FIRST_STATUS_WITH_BODY = 200
# AWS: that is the code of SQS for such an operation (SQS API, "Common errors").
_REFUSAL = "UnsupportedOperation"


def correct() -> None:
    """Correct moto's server in this process."""
    MotoRequestHandler.run_wsgi = _kept_alive(MotoRequestHandler.run_wsgi)
    # One small write per answer must not wait for the acknowledgement of the one before.
    MotoRequestHandler.disable_nagle_algorithm = True
    services = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: services
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    DomainDispatcherApplication.__call__ = _with_shortcut(DomainDispatcherApplication.__call__)
    BaseResponse._dispatch = _answered(BaseResponse._dispatch)  # noqa: SLF001


def _kept_alive(original: Callable[[Any], None]) -> Callable[[Any], None]:
    def run_wsgi(handler: Any) -> None:
        if "Transfer-Encoding" in handler.headers or "Expect" in handler.headers:
            original(handler)
            return
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        environ = handler.environ = handler.make_environ()
        environ["wsgi.input"] = io.BytesIO(body)
        answer = _Answer()
        try:
            content = answer.collect(handler.server.app, environ)
        except Exception:
            logging.getLogger(_SERVER_LOG).exception("Error on request")
            answer = _Answer()
            content = answer.collect(InternalServerError(), environ)
        if answer.is_page_of_error():
            content = answer.refuse(f"{handler.command} {handler.path}")
        handler.wfile.write(answer.encode(handler, content))
        if logging.getLogger(_SERVER_LOG).isEnabledFor(logging.INFO):
            handler.log_request(answer.status.partition(" ")[0], len(content))

    return run_wsgi


class _Answer:
    """Collects the answer of a WSGI application."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []

    def collect(self, application: Any, environ: dict[str, Any]) -> bytes:
        parts = application(environ, self._start)
        try:
            self._written.extend(parts)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        return b"".join(self._written)

    def _start(
        self, status: str, headers: list[tuple[str, str]], _exception: object = None
    ) -> Callable[[bytes], None]:
        self.status, self.headers = status, headers
        return self._written.append

    def is_page_of_error(self) -> bool:
        kinds = [value for name, value in self.headers if name.lower() == "content-type"]
        return self.status >= "4" and any(kind.startswith("text/html") for kind in kinds)

    def refuse(self, request: str) -> bytes:
        """Answer as a service that speaks JSON; the others refuse by themselves, whatever their path."""
        self.status = "400 Bad Request"
        self.headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", _REFUSAL)]
        return json.dumps(
            {"__type": _REFUSAL, "message": f"{request} is not emulated on this machine"}
        ).encode()

    def encode(self, handler: Any, content: bytes) -> bytes:
        code = int(self.status.partition(" ")[0])
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        names = {name.lower() for name, _value in self.headers}
        if "server" not in names:
            lines.append(f"Server: {handler.server_version}")
        if "date" not in names:
            lines.append(f"Date: {handler.date_time_string()}")
        if "content-length" not in names and _may_have_body(code) and handler.command != "HEAD":
            lines.append(f"Content-Length: {len(content)}")
        if handler.close_connection:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head if handler.command == "HEAD" else head + content


def _may_have_body(code: int) -> bool:
    return code >= _FIRST_STATUS_WITH_BODY and code not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


def _answered(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    def answered(self: Any, *request: Any) -> Any:
        try:
            return dispatch(self, *request)
        except HTTPException:
            raise
        except Exception as error:
            if not isinstance(error, NotImplementedError):
                logging.getLogger(_SERVER_LOG).exception("Error on request")
            text = f"{self._get_action()} is not emulated on this machine: {type(error).__name__}: {error}"
            # moto finds the service of an error by its module.
            refusal = type("NotEmulatedError", (ServiceException,), {"__module__": type(self).__module__})
            return self.serialized(ActionResult(refusal(_REFUSAL, text)))

    return answered


_PROTOCOL = "application/x-amz-json-1.0"
_TARGET = "AmazonSQS."

Environ = dict[str, Any]
Application = Callable[[Any, Environ, Callable[..., Any]], Iterable[bytes]]


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
