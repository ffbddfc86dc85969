"""`lanes ui`: serve the page of the lanes."""

from __future__ import annotations

import webbrowser
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.stack.operations import Operations
from lanes.cli.arguments import duration
from lanes.cli.outbox.target import Database, OutboxTarget, Table
from lanes.cli.printing import say, show_json
from lanes.cli.target import Output, target_of
from lanes.cli.usage import usage
from lanes.errors import ConfigurationError
from lanes.installing import install_hint
from lanes.ui.address import Address
from lanes.ui.api.routes import Routes
from lanes.ui.protection import Guard
from lanes.ui.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from starlette.types import ASGIApp

    from lanes.cli.target import Target

# A stopping redrive finishes its batch and makes its messages visible again.
JOBS_END_SECONDS = 10.0
# Each reading is a call a queue; below this a page of many lanes would be throttled.
MIN_INTERVAL = timedelta(seconds=0.2)


def ui(
    context: typer.Context,
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Allow changes; the page is read-only by default.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Listen on this loopback address.")] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    interval: Annotated[
        str, typer.Option(help="Read the queues at this interval while the page is open.")
    ] = "2s",
    database: Database = None,
    table: Table = None,
) -> None:
    """
    Serve a page on this machine that shows lanes, dead letters, the outbox and the audit trail.

    The printed address contains a token that gives access with your rights, so keep it to yourself. With --write you
    can make changes: each has a preview and an entry in the audit trail, like the changes of other verbs.
    """
    make_application, serve = _web()
    target = target_of(context)
    with usage("--host"):
        address = Address.take(host, port)
    every = max(duration(interval, "--interval"), MIN_INTERVAL)
    session = Session(
        connect=lambda: _operations(target),
        outbox=lambda: OutboxTarget(stack=target, database=database, table=table),
    )
    answers = Routes(session, every=every, writes=write, target=_describe(target, session))
    guard = Guard(hosts=address.hosts, token=address.token)
    _announce(target, address, write=write)
    # After the socket listens, so that the browser finds the page.
    if open_:
        webbrowser.open(address.url)
    try:
        serve(make_application(answers, guard), address.socket)
    finally:
        for title in answers.jobs.stop(within=JOBS_END_SECONDS):
            say(f"still running, stopped: {title}")


def _web() -> tuple[Callable[..., ASGIApp], Callable[[ASGIApp, socket], None]]:
    """Import the packages that only this verb needs."""
    try:
        from lanes.ui.application import make_application
        from lanes.ui.server import serve
    except ImportError as error:
        problem = f"{error.name} is not installed: {install_hint('ui')}"
        raise ConfigurationError([problem], source="lanes ui") from error
    return make_application, serve


def _operations(target: Target) -> Operations:
    return Operations(deployment=target.deployment(), clients=target.clients(), stack_name=target.stack_name)


def _describe(target: Target, session: Session) -> dict[str, Any]:
    """Describe the target; if the lanes can't be found, this fails before the page is served."""
    names = [lane.name for lane in session.operations.deployment.config.lanes]
    say(f"{target.stack_name}: {', '.join(names)}")
    region = target.region or target.clients().operations("sqs").meta.region_name
    return {
        "stack": target.stack_name,
        "region": region,
        "endpoint": target.endpoint,
        "profile": target.profile,
    }


def _announce(target: Target, address: Address, *, write: bool) -> None:
    if target.output is Output.JSON:
        show_json({"url": address.url, "port": address.port, "write": write})
    else:
        typer.echo(address.url)
    say("changes are allowed" if write else "read-only; allow changes with --write")
    say("stop with Ctrl-C")
