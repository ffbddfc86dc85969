"""The ASGI application of the page: its files, its API, and the guard in front of both."""

from __future__ import annotations

import dataclasses
import logging
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from lanes.errors import LanesError
from lanes.ui.api.documents import document
from lanes.ui.api.fields import Fields
from lanes.ui.faults import Fault, fault_of
from lanes.ui.protection import API, HEADERS, JSON, LARGEST_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from lanes.ui.api.routes import Routes
    from lanes.ui.protection import Guard
    from lanes.ui.session import Session

    Ask = Callable[[Fields], Any]

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
READ_ONLY = Fault(
    status=403, title="This page is read-only", advice="To make changes, start it with `lanes ui --write`."
)
FAILED = Fault(status=500, title="lanes ui failed; its terminal shows the error")

_logger = logging.getLogger(__name__)


def make_application(api: Routes, guard: Guard) -> ASGIApp:
    """
    Create the application.

    Args:
        api: the routes of the API; without `writes`, those of changes refuse.
        guard: decides which requests are answered.
    """
    routes = [
        *(_route(name, _endpoint(ask, api.session)) for name, ask in api.reads.items()),
        *(
            _route(name, _endpoint(ask, api.session) if api.writes else _refuse)
            for name, ask in api.changes.items()
        ),
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
        headers = Headers(scope=scope)
        refusal = self._guard.refusal(scope["method"], scope["path"], headers)
        answer = self._application
        if refusal is not None:
            answer = _fault(Fault(status=refusal.status, title=f"Refused: {refusal.why}"))

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_PROTECTING]
            await send(message)

        await answer(scope, receive, guarded)


_PROTECTING = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def _route(name: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    # Reads too: any site can send a GET with an image or a link, and none can send JSON without a preflight request.
    return Route(API + name, endpoint, methods=["POST"])


def _endpoint(ask: Ask, session: Session) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        # boto3 blocks, and one slow call must not keep the other tabs waiting.
        return await run_in_threadpool(_answer, ask, body, session)

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
    except Exception:
        # The boundary of a request: the page shows the failure and continues.
        _logger.exception("a request failed")
        return _fault(FAILED)


async def _refuse(_request: Request) -> Response:
    return _fault(READ_ONLY)


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
