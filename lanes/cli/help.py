"""The help of each verb: its paragraphs, wrapped once by the terminal, and examples; and the order of the verbs."""

from __future__ import annotations

from typing import Any

FIRST = (
    "status", "send", "dead-letters", "trace", "pause", "resume", "prioritize", "cancel", "work", "local",
)  # fmt: skip
"""The verbs for every day, which `lanes --help` shows first."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "new": ("lanes new shop",),
    "local up": ("lanes local up shop", "lanes local up --stage demo --port 4566"),
    "cdk": ("lanes cdk bootstrap", "lanes cdk deploy -c stage=prod"),
    "local run": ("lanes local run python send.py", "lanes local run --app shop lanes status"),
    "status": ("lanes status", "lanes status --watch --stage prod"),
    "check": ("lanes check --stage prod",),
    "send": (
        "lanes send order.placed '{\"order\": 7}' --group customer-7 --priority HIGH",
        "lanes send --file orders.jsonl --dry-run",
    ),
    "pause": ("lanes pause MAIN", "lanes pause MAIN --dry-run"),
    "resume": ("lanes resume MAIN",),
    "prioritize": (
        'lanes prioritize 60 --kind "invoice.*" --group customer-7 --why "customer waits"',
        "lanes prioritize --kind report.built --dry-run -- -100",
    ),
    "cancel": (
        'lanes cancel --kind "report.*" --dry-run',
        'lanes cancel --id order-7 --id order-8 --why "sent twice"',
        'lanes cancel --run statements-2026-11 --why "wrong month"',
    ),
    "audit": ("lanes audit --since 2d",),
    "trace": ("lanes trace order-7", "lanes trace order-7 --since 14d"),
    "tail": ('lanes tail --lane HIGH --kind "order.*"', "lanes tail --event failed --event dead-lettered"),
    "ui": ("lanes ui --open", "lanes ui --stage prod --write"),
    "work": ("lanes work my_app.handlers:consumer", "lanes work my_app.handlers:consumer --slots 1"),
    "simulate": (
        'lanes simulate --arrivals "HIGH rate=2 service=200ms" --arrivals "MAIN backlog=1000 service=200ms"',
        "lanes simulate load.toml --compare --plot waits.svg",
        "lanes simulate load.toml --slots 1,2,3,5",
    ),
    "dead-letters list": (
        "lanes dead-letters list",
        'lanes dead-letters list MAIN --kind "order.*" --since 2h',
    ),
    "dead-letters show": ("lanes dead-letters show order-7",),
    "dead-letters redrive": (
        'lanes dead-letters redrive MAIN --kind "order.*" --dry-run',
        "lanes dead-letters redrive MAIN --reason TimeoutError --rate 20",
    ),
    "dead-letters delete": (
        'lanes dead-letters delete MAIN --kind "test.*" --dry-run',
        "lanes dead-letters delete MAIN --id order-7",
    ),
    "overrides list": ("lanes overrides list",),
    "overrides withdraw": ("lanes overrides withdraw 3f2a --dry-run",),
    "overrides cancelled": ("lanes overrides cancelled --since 2d",),
    "schedules list": ("lanes schedules list",),
    "schedules pause": ("lanes schedules pause nightly-statements",),
    "schedules resume": ("lanes schedules resume nightly-statements --dry-run",),
    "schedules run": ("lanes schedules run nightly-statements",),
    "scheduled list": ("lanes scheduled list --limit 20",),
    "scheduled cancel": ("lanes scheduled cancel reminder-7",),
    "scheduled send-now": ("lanes scheduled send-now reminder-7",),
    "runs list": ("lanes runs list", "lanes runs list --since 45d"),
    "runs show": ("lanes runs show statements-2026-11", "lanes runs show statements-2026-11 --exact"),
    "runs watch": ("lanes runs watch statements-2026-11 --timeout 2h",),
    "runs close": ('lanes runs close statements-2026-11 --why "sent by mail" --dry-run',),
    "outbox setup": ("lanes outbox --database postgresql://localhost/shop setup --print",),
    "outbox relay": ("lanes outbox relay", "lanes outbox --database postgresql://localhost/shop relay"),
    "outbox status": ("lanes outbox status",),
    "outbox list": ('lanes outbox list --state ABANDONED --kind "invoice.*"',),
    "outbox show": ("lanes outbox show order-7",),
    "outbox retry": ("lanes outbox retry --state ABANDONED --kind order.placed --dry-run",),
    "outbox cleanup": ("lanes outbox cleanup --dry-run",),
    "outbox reconcile": ("lanes outbox reconcile --after 1h",),
    "outbox audit": ("lanes outbox audit",),
    "bulk submit": (
        "lanes bulk submit --run spring --table s3://lake/customers --kind customer.remind --id customer_id",
    ),
    "config show": ("lanes config show --stage prod --file lanes.toml",),
}
"""Examples by verb; the tests parse each of them."""


def add_help(command: Any, path: str = "") -> None:
    """Unwrap the paragraphs of a command's help, and add its examples; do the same for its verbs."""
    # A docstring's line ends would stay, and the terminal would wrap each of its lines once more.
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    if examples := EXAMPLES.get(path):
        heading = "Example:" if len(examples) == 1 else "Examples:"
        command.epilog = "\n".join([heading, *(f"  {example}" for example in examples)])
    for name, verb in getattr(command, "commands", {}).items():
        add_help(verb, f"{path} {name}".strip())


def put_first(command: Any) -> None:
    """Put the verbs for every day first, and the others into a panel below."""
    others = [name for name in command.commands if name not in FIRST]
    for name in others:
        command.commands[name].rich_help_panel = "More commands"
    names = [name for name in FIRST if name in command.commands]
    command.commands = {name: command.commands[name] for name in [*names, *others]}
