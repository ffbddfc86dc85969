"""The ASGI application of the page: its files, its API, and the guard in front of both."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from datetime import datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from lanes.errors import LanesError
from lanes.retries import SILENCE, OutageLog
from lanes.ui.fields import Fields
from lanes.ui.protection import API, CURRENT, HEADERS, JSON, LARGEST_BODY_BYTES
from lanes.ui.session import Fault, fault_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from socket import socket

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from lanes.ui.api import Routes
    from lanes.ui.protection import Guard
    from lanes.ui.session import Session

    Ask = Callable[[Fields], Any]

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
READ_ONLY = Fault(
    status=403,
    title="This page is read-only",
    advice="To make changes, start it with `lanes ui --write`; on a page for a team, be one of its operators.",
)
UNKNOWN_STACK = Fault(status=404, title="This page does not serve that stack")
FAILED = Fault(status=500, title="lanes ui failed; its terminal shows the error")

_logger = logging.getLogger(__name__)
_PROTECTING = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
# Ctrl-C must not wait for the polls of open tabs.
GRACE_SECONDS = 2


def make_application(stacks: Mapping[str, Routes], guard: Guard) -> ASGIApp:
    """
    Create the application.

    Args:
        stacks: the routes of the API by stack; `?stack=` selects one, by default the first.
        guard: decides which requests are answered, and who may make changes.
    """
    first, failures = next(iter(stacks.values())), FailedRequests()
    routes = [
        *(_route(name, _endpoint(name, stacks, failures)) for name in (*first.reads, *first.changes)),
        *_pages(),
    ]
    return Guarded(Starlette(routes=routes, max_body_size=LARGEST_BODY_BYTES), guard)


class Guarded:
    """
    Refuses the requests that the guard rejects, and adds the protecting headers to every answer.

    Args:
        application: answers the other requests.
        guard: decides about requests.
    """

    def __init__(self, application: ASGIApp, guard: Guard) -> None:
        self._application = application
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = _joined(Headers(scope=scope))
        refusal = self._guard.refusal(scope["method"], scope["path"], headers)
        answer = self._application
        if refusal is not None:
            answer = _fault(Fault(status=refusal.status, title=f"Refused: {refusal.why}"))
        else:
            CURRENT.set(self._guard.user(headers))

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_PROTECTING]
            await send(message)

        await answer(scope, receive, guarded)


def _joined(headers: Headers) -> dict[str, str]:
    """Join repeated headers: of two values, a guard must not take the one that the browser sent."""
    return {name: ", ".join(headers.getlist(name)) for name in headers}


def _route(name: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    # Reads too: any site can send a GET with an image or a link, and none can send JSON without a preflight request.
    return Route(API + name, endpoint, methods=["POST"])


class FailedRequests:
    """
    Logs errors that no page explains: the first with its traceback, then one a minute, as pages ask again.

    Args:
        clock: returns epoch seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._outages = OutageLog(over_after=SILENCE)

    def failed(self, name: str, error: Exception) -> None:
        """Log the error of a request."""
        cause = type(error).__name__
        now, of = self._clock(), f"{name} {cause}"
        outage = self._outages.failed(of, cause=cause, reason=cause, now=now, error=error)
        if outage is not None:
            text = "a request for %s failed, times until now: %d (%s)"
            _logger.error(text, name, outage.failures, cause, exc_info=outage.error)


def _endpoint(
    name: str, stacks: Mapping[str, Routes], failures: FailedRequests
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        api = stacks.get(request.query_params.get("stack") or next(iter(stacks)))
        if api is None:
            return _fault(UNKNOWN_STACK)
        if name in api.changes and not CURRENT.get().may_write:
            return _fault(READ_ONLY)
        ask = api.changes[name] if name in api.changes else api.reads[name]
        body = await request.body()
        # boto3 blocks, and one slow call must not keep the other tabs waiting.
        try:
            return await run_in_threadpool(_answer, ask, body, api.session)
        except Exception as error:  # noqa: BLE001 - the page shows the failure and continues
            failures.failed(name, error)
            return _fault(FAILED)

    return endpoint


def _answer(ask: Ask, body: bytes, session: Session) -> Response:
    """Call a route, and turn an error into a document that the page can show."""
    try:
        return Response(document(ask(Fields.of_body(body))), media_type=JSON)
    except LanesError as error:
        fault = fault_of(error)
        # The next request connects again and reads new credentials.
        if fault.needs_sign_in:
            session.forget()
        return _fault(fault)


def _fault(fault: Fault) -> Response:
    return Response(document(dataclasses.asdict(fault)), status_code=fault.status, media_type=JSON)


def _pages() -> Iterator[Route]:
    """Serve the files of the package from memory."""
    for file in (files("lanes.ui") / "assets").iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        kind = KINDS[file.name.rpartition(".")[2]]
        # From memory: no path of a request ever reaches the file system.
        yield Route(path, _page(Response(file.read_bytes(), media_type=kind)), methods=["GET"])


def _page(answer: Response) -> Callable[[Request], Awaitable[Response]]:
    async def page(_request: Request) -> Response:
        return answer

    return page


def document(value: object) -> bytes:
    """Write an answer of a route as JSON: durations in seconds, times in epoch seconds, None for unknown."""
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def record(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, unconverted."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return record(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def serve(application: ASGIApp, listener: socket) -> None:
    """
    Serve until SIGINT or SIGTERM, which takes its normal effect after the last answer.

    Args:
        application: the page.
        listener: the listening socket.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    # Errors of uvicorn are worth a line; its warnings about invalid requests of other programs are not.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        application,
        access_log=False,
        interface="asgi3",
        lifespan="off",
        loop="asyncio",
        # Otherwise uvicorn configures logging for the whole process.
        log_config=None,
        # A header must not change the address that a request seems to come from.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
