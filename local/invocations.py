"""
Lambda's Invoke on this machine: the AWS server hands it on to the platform, which has the functions' environments.

`InvokeRoute` is the server's part, `InvokeEndpoint` the platform's.
"""

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

from botocore.exceptions import ClientError

from .account import ACCOUNT, HOST, REGION
from .callers import HEADERS, Application, refusal_of
from .environment import Invocation
from .event_source_mapping import Invocable

ADDRESS = "LANES_SERVER_INVOCATIONS"
"""Variable of the server with the port of the platform's `InvokeEndpoint`."""

# AWS: the path of Invoke (API reference of Lambda).
_PATH = re.compile(r"/2015-03-31/functions/([^/]+)/invocations/?")
_NAME = re.compile(r"(?:(?:arn:aws:lambda:[^:]+:)?(?:\d+:)?function:)?([\w-]+)(?::[\w$-]+)?")
_TYPE = "X-Amz-Invocation-Type"
# AWS: an asynchronous invocation that fails is retried after one minute and after two more, a throttled one for hours
# (Lambda developer guide, "How Lambda handles errors and retries with asynchronous invocation").
_RETRY_SECONDS = (60.0, 120.0)
_THROTTLED_SECONDS = 1.0


def function_arn(name: str) -> str:
    """Return the ARN of a function by its name, its ARN or a part of that; empty for anything else."""
    found = _NAME.fullmatch(name)
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{found[1]}" if found else ""


class InvokeRoute:
    """
    WSGI middleware that hands Invoke to the platform.

    Args:
        application: gets every other request.
        port: of the platform's `InvokeEndpoint`.
    """

    def __init__(self, application: Application, *, port: int) -> None:
        self._application = application
        self._port = port

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer an Invoke."""
        found = _PATH.fullmatch(environ.get("PATH_INFO", ""))
        if found is None or environ["REQUEST_METHOD"] != "POST":
            return self._application(environ, start_response)
        payload = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        kind = environ.get("HTTP_X_AMZ_INVOCATION_TYPE", "RequestResponse")
        # Without a timeout: a function runs for up to fifteen minutes.
        connection = http.client.HTTPConnection(HOST, self._port)
        try:
            connection.request("POST", f"/{quote(found[1], safe='')}", payload, {_TYPE: kind})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        headers = [
            (name, value) for name, value in answer.getheaders() if name.lower() not in {"server", "date"}
        ]
        start_response(f"{answer.status} {answer.reason}", headers)
        return [content]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeAnswer:
    """The answer to an Invoke: HTTP status, body and headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class InvokeEndpoint:
    """
    Runs functions for the server's Invoke requests, on a loopback port of its own.

    Args:
        find: returns the function with an ARN, or None.
    """

    def __init__(self, find: Callable[[str], Invocable | None]) -> None:
        self._find = find
        self._stopped = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> int:
        """Listen, and return the port."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                refusal = refusal_of({name: ",".join(self.headers.get_all(name, [])) for name in HEADERS})
                if refusal is not None:
                    self.send_error(int(refusal[0].split()[0]), explain=refusal[1])
                    return
                try:
                    answer = endpoint.answer(unquote(self.path[1:]), self.headers.get(_TYPE, ""), payload)
                except (ClientError, OSError) as error:
                    # Code that can't be fetched is an answer too.
                    answer = _refusal(500, "ServiceException", f"{type(error).__name__}: {error}")
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_details: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="invocations", daemon=True).start()
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Listen no more; nothing is retried from now on."""
        self._stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def answer(self, name: str, kind: str, payload: bytes) -> InvokeAnswer:
        """
        Answer an Invoke, for RequestResponse after the function has.

        Args:
            name: of the function, or its ARN.
            kind: RequestResponse, Event or DryRun.
            payload: JSON.
        """
        arn = function_arn(name)
        function = self._find(arn) if arn else None
        if function is None:
            return _refusal(404, "ResourceNotFoundException", f"Function not found: {arn or name}")
        try:
            json.loads(payload or b"{}")
        except ValueError as error:
            reason = f"Could not parse request body into json: {error}"
            return _refusal(400, "InvalidRequestContentException", reason)
        if kind == "DryRun":
            return InvokeAnswer(status=204)
        if kind == "Event":
            threading.Thread(target=self._run_later, args=(function, payload or b"{}"), daemon=True).start()
            return InvokeAnswer(status=202)
        return _answer_of(function.invoke(payload or b"{}"))

    def _run_later(self, function: Invocable, payload: bytes) -> None:
        for seconds in (*_RETRY_SECONDS, None):
            while (invocation := function.invoke(payload)).throttled:
                if self._stopped.wait(_THROTTLED_SECONDS):
                    return
            if invocation.function_error is None or seconds is None or self._stopped.wait(seconds):
                return


def _answer_of(invocation: Invocation) -> InvokeAnswer:
    if invocation.throttled:
        return _refusal(
            429,
            "TooManyRequestsException",
            "Rate Exceeded.",
            Reason="ReservedFunctionConcurrentInvocationLimitExceeded",
        )
    failed = {} if invocation.function_error is None else {"X-Amz-Function-Error": invocation.function_error}
    headers = {"Content-Type": "application/json", "X-Amz-Executed-Version": "$LATEST", **failed}
    return InvokeAnswer(status=200, body=invocation.payload, headers=headers)


def _refusal(status: int, code: str, message: str, **more: str) -> InvokeAnswer:
    body = json.dumps({"Type": "User", "message": message, **more}).encode()
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": code}
    return InvokeAnswer(status=status, body=body, headers=headers)
