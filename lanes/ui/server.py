"""Serves the page until it is interrupted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from socket import socket

    from starlette.types import ASGIApp

# Ctrl-C must not wait for the polls of open tabs.
GRACE_SECONDS = 2


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
