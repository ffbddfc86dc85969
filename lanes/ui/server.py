"""Serves the page until it is interrupted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from socket import socket

    from starlette.types import ASGIApp

GRACE_SECONDS = 2


def serve(application: ASGIApp, listener: socket) -> None:
    """
    Serve until SIGINT or SIGTERM, which has its usual effect after the last answer.

    Args:
        application: the page.
        listener: where requests come in.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    # Its own errors are worth a line; its "Invalid HTTP request" for whatever else knocks is not.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        application,
        access_log=False,
        interface="asgi3",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
