"""`lanes probe`: measure the behaviour of AWS that no document describes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.errors import aws_errors
from lanes.aws.stack.probe import ProbeStand
from lanes.cli.printing import confirm, say, show_rows
from lanes.cli.target import target_of
from lanes.cli.usage import ExitCode, UsageError
from lanes.config.table import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.cli.target import Target
    from lanes.probe.profile import Profile

app = typer.Typer(no_args_is_help=True, help="Measure the behaviour of AWS that no document describes.")

# AWS: 100 of an account's concurrency stay unreserved (Lambda developer guide, "Configuring reserved concurrency").
RESERVED, UNRESERVED = 1, 100

Out = Annotated[
    Path,
    typer.Option("--out", help="Write this profile, and beside it the events.", dir_okay=False),
]
DEFAULT_OUT = Path("aws-profile.toml")


@app.command()
def run(
    context: typer.Context,
    *,
    out: Out = DEFAULT_OUT,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Run only this experiment. Repeatable.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run few repetitions, to see that everything works.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show time and cost, and deploy nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
) -> None:
    """
    Deploy a small stack, measure AWS with it, write a profile, and destroy the stack.

    Exits with 3 if an experiment did not complete.
    """
    from lanes.probe.experiments import EXPERIMENTS, FULL, QUICK
    from lanes.probe.run import run as run_probe
    from lanes.probe.stack import STACK, ProbeStack

    for name in only or ():
        if name not in EXPERIMENTS:
            raise UsageError(
                [f"there is no experiment {name!r}{nearest(name, EXPERIMENTS)}"], source="--only"
            )
    target = target_of(context)
    plan = QUICK if quick else FULL
    region = _region(target)
    minutes = plan.minutes(only or ())
    say(
        f"The probe deploys the stack {STACK} into {region}, measures for about {minutes:.0f} minutes, and destroys "
        "the stack. It costs some cents, below 1 USD in any case."
    )
    if dry_run:
        return
    _check_quota(target)
    confirm(f"deploy {STACK} into {region}?", yes=yes)
    profile = run_probe(
        ProbeStack(plan, environment=target.environment(os.environ), report=say),
        lambda queues, table: _stand(target, queues, table),
        plan,
        out,
        names=only or (),
        now=datetime.now(UTC),
        region=region,
        report=say,
    )
    _show(context, profile, out)


@app.command()
def read(
    context: typer.Context,
    events: Annotated[Path, typer.Argument(metavar="EVENTS", help="Events of a probe.", dir_okay=False)],
    *,
    out: Out = DEFAULT_OUT,
) -> None:
    """Write the profile again from the recorded events of a probe."""
    from lanes.probe.run import read_events, write

    _show(context, write(read_events(events), out), out)


def _show(context: typer.Context, profile: Profile, out: Path) -> None:
    show_rows(target_of(context), profile.rows(), empty="nothing was measured")
    say(f"wrote {out}")
    if profile.incomplete:
        raise typer.Exit(ExitCode.NO)


def _region(target: Target) -> str:
    """Return the region, or the address of a local AWS."""
    return target.endpoint or str(target.clients().sqs().meta.region_name)


def _stand(target: Target, queues: Mapping[str, str], table: str) -> ProbeStand:
    clients = target.clients()
    return ProbeStand(queues, table, sqs=clients.sqs(), dynamodb=clients.dynamodb())


def _check_quota(target: Target) -> None:
    """Refuse an account that has no concurrency left to reserve, before a deploy fails on it."""
    if target.endpoint is not None:
        return
    functions = target.clients().operations("lambda")
    with aws_errors("GetAccountSettings"):
        limit = functions.get_account_settings()["AccountLimit"]
    left = limit["UnreservedConcurrentExecutions"] - UNRESERVED
    if left < RESERVED:
        problem = (
            f"the account has {left + UNRESERVED} unreserved concurrent executions, of which Lambda keeps "
            f"{UNRESERVED}; the probe reserves {RESERVED}: raise the quota, or use another region"
        )
        raise UsageError([problem], source="Lambda")
