"""`lanes ui`: the lanes in a browser."""

from __future__ import annotations

import webbrowser
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.operations import Operations
from lanes.cli.operating import duration
from lanes.cli.outbox_place import Database, OutboxPlace, Table
from lanes.cli.place import Output, place_of
from lanes.cli.printing import say, show_json
from lanes.cli.usage import usage
from lanes.errors import ConfigurationError
from lanes.ui.address import Address
from lanes.ui.answers import Answers
from lanes.ui.desk import Desk
from lanes.ui.protection import Guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from starlette.types import ASGIApp

    from lanes.cli.place import Place

JOBS_END_SECONDS = 10.0
LEAST_INTERVAL = timedelta(seconds=0.2)


def ui(
    context: typer.Context,
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Allow changes; without it the page only shows.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 0,
    host: Annotated[str, typer.Option(help="Another loopback address, such as ::1.")] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    interval: Annotated[str, typer.Option(help="How often to count the queues while a page is open.")] = "2s",
    database: Database = None,
    table: Table = None,
) -> None:
    """
    Show the lanes in a browser: what waits, dead letters, the outbox, who changed what; on this machine only.

    Prints an address that holds a token: whoever has it sees, and with --write changes, what you may. Every change is
    previewed and leaves its entry in the audit trail, as the verbs' do.
    """
    make_application, serve = _web()
    place = place_of(context)
    with usage("--host"):
        address = Address.take(host, port)
    every = max(duration(interval), LEAST_INTERVAL)
    desk = Desk(
        connect=lambda: _operations(place),
        outbox=lambda: OutboxPlace(place=place, database=database, table=table),
    )
    answers = Answers(desk, every=every, writes=write, place=_words(place, desk))
    guard = Guard(hosts=address.hosts, token=address.token)
    _announce(place, address, write=write)
    if open_:
        webbrowser.open(address.url)
    try:
        serve(make_application(answers, guard), address.socket)
    finally:
        for title in answers.jobs.stop(within=JOBS_END_SECONDS):
            say(f"still at work, and ended: {title}")


def _web() -> tuple[Callable[..., ASGIApp], Callable[[ASGIApp, socket], None]]:
    """Import what only this verb needs."""
    try:
        from lanes.ui.application import make_application
        from lanes.ui.server import serve
    except ImportError as error:
        problem = f"{error.name} is not installed: pip install 'priority-lanes[ui]'"
        raise ConfigurationError([problem], source="lanes ui") from error
    return make_application, serve


def _operations(place: Place) -> Operations:
    return Operations(deployment=place.deployment(), clients=place.clients(), stack_name=place.stack_name)


def _words(place: Place, desk: Desk) -> dict[str, Any]:
    """Say where this is; finding the lanes fails here, before anything is served."""
    names = [lane.name for lane in desk.operations.deployment.config.lanes]
    say(f"{place.stack_name}: {', '.join(names)}")
    region = place.region or place.clients().operations("sqs").meta.region_name
    return {"stack": place.stack_name, "region": region, "endpoint": place.endpoint, "profile": place.profile}


def _announce(place: Place, address: Address, *, write: bool) -> None:
    if place.output is Output.JSON:
        show_json({"url": address.url, "port": address.port, "write": write})
    else:
        typer.echo(address.url)
    say("it allows changes" if write else "read-only; --write allows changes")
    say("Ctrl-C ends it")
