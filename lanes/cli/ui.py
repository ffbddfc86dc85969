"""`lanes ui`: serve the page of the lanes."""

from __future__ import annotations

import dataclasses
import os
import webbrowser
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from lanes.aws.stack import Operations
from lanes.cli.arguments import duration
from lanes.cli.printing import say, show_json
from lanes.cli.relay import Database, OutboxTarget, Table
from lanes.cli.target import Output, UsageError, target_of, usage
from lanes.errors import ConfigurationError
from lanes.installing import install_hint
from lanes.ui.protection import SECRET_HEADER, Address, ProxyGuard, TokenGuard, current_name
from lanes.ui.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from socket import socket

    from starlette.types import ASGIApp

    from lanes.cli.target import Target
    from lanes.ui.api import Routes

# A stopping redrive finishes its batch and makes its messages visible again.
JOBS_END_SECONDS = 10.0
SECRET_VARIABLE = "LANES_UI_SECRET"  # noqa: S105 - the name of the variable
# 128 bits as hexadecimal digits.
SHORTEST_SECRET = 32
# Each reading is a call a queue; below this a page of many lanes would be throttled.
MIN_INTERVAL = timedelta(seconds=0.2)


def ui(
    context: typer.Context,
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Allow changes; the page is read-only by default.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 0,
    host: Annotated[
        str,
        typer.Option(help="Listen on this loopback address; with --serve on any address of this machine."),
    ] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
    interval: Annotated[
        str, typer.Option(help="Read the queues at this interval while the page is open.")
    ] = "2s",
    also: Annotated[
        list[str] | None, typer.Option("--also", help="Show this stack too; may be repeated.")
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Serve a team under this address, that of a proxy which signs users in."
        ),
    ] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", help="With --serve, allow this user to make changes; may be repeated."),
    ] = None,
    user_header: Annotated[
        str, typer.Option(help="With --serve, the header in which the proxy names the user.")
    ] = "X-Forwarded-User",
    database: Database = None,
    table: Table = None,
) -> None:
    """
    Serve a page on this machine that shows lanes, dead letters, the outbox and the audit trail.

    The printed address contains a token that gives access with your rights, so keep it to yourself. With --write you
    can make changes: each has a preview and an entry in the audit trail, like the changes of other verbs.

    With --serve there is no token. Every request must have the secret of the variable LANES_UI_SECRET in the header
    X-Lanes-Proxy-Secret, and the user's name in --user-header; entries in the audit trail have that name.
    """
    make_application, run = _web()
    target = target_of(context)
    team = _team(serve, operators=operator or (), user_header=user_header, writes=write)
    with usage("--host"):
        address = Address.take(host, port, is_for_team=team is not None)
    every = max(duration(interval, "--interval"), MIN_INTERVAL)
    targets = [target, *(dataclasses.replace(target, stack=name) for name in also or ())]
    names = [one.stack_name for one in targets]
    stacks = {one.stack_name: _routes(one, names, every, database=database, table=table) for one in targets}
    guard = team or TokenGuard(hosts=address.hosts, token=address.token, writes=write)
    url = serve if serve is not None else address.url
    _announce(target, url, port=address.port, write=write, is_for_team=team is not None)
    # After the socket listens, so that the browser finds the page.
    if open_:
        webbrowser.open(url)
    try:
        run(make_application(stacks, guard), address.socket)
    finally:
        for api in stacks.values():
            for title in api.jobs.stop(within=JOBS_END_SECONDS):
                say(f"still running, stopped: {title}")


def _team(url: str | None, *, operators: Sequence[str], user_header: str, writes: bool) -> ProxyGuard | None:
    """
    Return the guard of a page for a team; None without --serve.

    Raises:
        UsageError: the options contradict each other, or an address or a secret is missing or weak.
    """
    if url is None:
        if operators:
            raise UsageError(
                ["it is for --serve; alone you are the operator with --write"], source="--operator"
            )
        return None
    parts = urlsplit(url)
    problems = []
    if parts.scheme not in ("https", "http") or not parts.netloc or parts.path.strip("/") or parts.query:
        problems.append(f"{url!r} is not the address of a site, such as https://lanes.example.com")
    # A cookie of the login would cross the network in plain text.
    elif parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        problems.append(f"{url!r} has no encryption; give an https address")
    if writes:
        problems.append("--write is for your own page; name who may make changes with --operator")
    secret = os.environ.get(SECRET_VARIABLE, "")
    if len(secret) < SHORTEST_SECRET:
        problems.append(
            f"{SECRET_VARIABLE} has {len(secret)} characters; set it to at least {SHORTEST_SECRET} random ones, "
            f"and let the proxy send it in {SECRET_HEADER}"
        )
    if problems:
        raise UsageError(problems, source="--serve")
    return ProxyGuard(
        origin=f"{parts.scheme}://{parts.netloc}",
        secret=secret,
        user_header=user_header.lower(),
        operators=frozenset(operators),
    )


def _routes(
    target: Target, stacks: Sequence[str], every: timedelta, *, database: str | None, table: str | None
) -> Routes:
    # Not for other verbs, which do without the page.
    from lanes.ui.api import Routes

    session = Session(
        connect=lambda: _operations(target),
        outbox=lambda: OutboxTarget(stack=target, database=database, table=table, user=current_name),
    )
    return Routes(session, every=every, target={**_describe(target, session), "stacks": stacks})


def _web() -> tuple[Callable[..., ASGIApp], Callable[[ASGIApp, socket], None]]:
    """Import the packages that only this verb needs."""
    try:
        from lanes.ui.server import make_application, serve
    except ImportError as error:
        problem = f"{error.name} is not installed: {install_hint('ui')}"
        raise ConfigurationError([problem], source="lanes ui") from error
    return make_application, serve


def _operations(target: Target) -> Operations:
    return Operations(
        deployment=target.deployment(),
        clients=target.clients(),
        stack_name=target.stack_name,
        user=current_name,
    )


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


def _announce(target: Target, url: str, *, port: int, write: bool, is_for_team: bool) -> None:
    if target.output is Output.JSON:
        show_json({"url": url, "port": port, "write": write})
    else:
        typer.echo(url)
    if is_for_team:
        say(f"listening on port {port} for the proxy; --operator names who may make changes")
    else:
        say("changes are allowed" if write else "read-only; allow changes with --write")
    say("stop with Ctrl-C")
