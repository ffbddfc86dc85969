"""The page as an ASGI application: its files, its answers, and the guard before both."""

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
from lanes.ui.documents import document
from lanes.ui.fields import Fields
from lanes.ui.protection import API, HEADERS, JSON, LARGEST_BODY_BYTES
from lanes.ui.troubles import Trouble, trouble_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from lanes.ui.answers import Answers
    from lanes.ui.desk import Desk
    from lanes.ui.protection import Guard

    Ask = Callable[[Fields], Any]

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
READ_ONLY = Trouble(
    status=403, title="This page is read-only", advice="Start it with `lanes ui --write` to change something."
)
FAILED = Trouble(status=500, title="lanes ui itself failed; its terminal shows where")

_logger = logging.getLogger(__name__)


def make_application(answers: Answers, guard: Guard) -> ASGIApp:
    """
    Make the application.

    Args:
        answers: what can be asked; where changes are not allowed, their routes refuse.
        guard: decides which requests are answered.
    """
    routes = [
        *(_route(name, _endpoint(ask, answers.desk)) for name, ask in answers.reads.items()),
        *(
            _route(name, _endpoint(ask, answers.desk) if answers.writes else _refuse)
            for name, ask in answers.changes.items()
        ),
        *_pages(),
    ]
    return Guarded(Starlette(routes=routes, max_body_size=LARGEST_BODY_BYTES), guard)


class Guarded:
    """
    Lets through what the guard does not refuse, and puts the protecting headers on every answer.

    Args:
        application: what stands behind it.
        guard: decides.
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
            answer = _trouble(Trouble(status=refusal.status, title=f"Refused: {refusal.why}"))

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_PROTECTING]
            await send(message)

        await answer(scope, receive, guarded)


_PROTECTING = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def _route(name: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(API + name, endpoint, methods=["POST"])


def _endpoint(ask: Ask, desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_answer, ask, body, desk)

    return endpoint


def _answer(ask: Ask, body: bytes, desk: Desk) -> Response:
    """Ask, and turn what goes wrong into a document that the page can show."""
    try:
        return Response(document(ask(Fields.of_body(body))), media_type=JSON)
    except LanesError as error:
        trouble = trouble_of(error)
        if trouble.needs_sign_in:
            desk.forget()
        return _trouble(trouble)
    except Exception:
        # The border of a request: the page says so and goes on.
        _logger.exception("a request failed")
        return _trouble(FAILED)


async def _refuse(_request: Request) -> Response:
    return _trouble(READ_ONLY)


def _trouble(trouble: Trouble) -> Response:
    return Response(document(dataclasses.asdict(trouble)), status_code=trouble.status, media_type=JSON)


def _pages() -> Iterator[Route]:
    """Serve the files of the package: the few that are there, from memory."""
    for file in (files("lanes.ui") / "assets").iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        kind = KINDS[file.name.rpartition(".")[2]]
        yield Route(path, _page(Response(file.read_bytes(), media_type=kind)), methods=["GET"])


def _page(answer: Response) -> Callable[[Request], Awaitable[Response]]:
    async def page(_request: Request) -> Response:
        return answer

    return page
