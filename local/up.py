"""`lanes local up`: an app deployed to AWS on this machine, and deployed again when its files change."""

import contextlib
import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import typer
from botocore.exceptions import ClientError

from lanes.aws.clients import deployment_from_env, parameter_name
from lanes.cli.printing import busy, say
from lanes.cli.target import UsageError
from lanes.config.deployment import Deployment
from lanes.errors import AwsError, ConfigurationError

from .account import without_aws_settings
from .deploy import CdkApp, DeployError
from .function import DeployedFunction
from .interrupts import interrupt_once
from .platform import Platform
from .saved_code import Changes, Files
from .server import ServerError
from .state import build_folder, claimed
from .terminal import Terminal
from .unknowns import unknowns_of, variant_names

_LOOK_EVERY = 0.2
"""Seconds between two looks at the files of the app: a look at a thousand takes 10 ms."""
_INTERRUPTED = 130


def serve(
    folder: Path,
    *,
    stage: str | None,
    context: Mapping[str, str],
    port: int,
    seed: int,
    variants: Sequence[str],
    as_json: bool,
) -> int:
    """
    Deploy, print the addresses, and deploy changes until a signal arrives; return the exit status.

    Raises:
        ConfigurationError: a variant is unknown; the app runs already or can't be deployed; the server does not start.
    """
    unknown = [name for name in variants if name not in variant_names()]
    if unknown:
        known = "; ".join(f"'{name}'" for name in variant_names())
        raise UsageError([f"there is no variant {unknown[0]!r}; known are {known}"], source="--variant")
    # A user's own profile and keys play no part here: no call may reach a real account.
    for name in os.environ.keys() - without_aws_settings(os.environ).keys():
        del os.environ[name]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    app = CdkApp(directory=folder, stage=stage, context=context)
    try:
        app.check()
    except DeployError as error:
        raise UsageError([str(error)], source="FOLDER") from error
    build = build_folder(folder)
    terminal = Terminal(sys.stderr, build / "logs")
    platform = Platform(
        app=app,
        port=port,
        seed=seed,
        unknowns=unknowns_of(variants) if variants else None,
        figures=True,
        on_line=terminal,
        build_directory=build,
    )
    interrupt_once("stopping ...\n")
    up = False
    try:
        with contextlib.ExitStack() as stack:
            record = stack.enter_context(claimed(folder))
            deployed = Files.of(folder)
            began = time.time()
            with busy(
                lambda: f"deploying {folder}, {time.time() - began:.0f} s: {_last_line(build, since=began)}"
            ):
                stack.enter_context(platform)
            say(f"deployed in {time.time() - began:.0f} s")
            addresses = describe(platform)
            record(_variables(addresses))
            changes = Changes(app, platform, terminal, build / "code")
            # Saves after the next line are reported.
            changes.begin(deployed)
            typer.echo(json.dumps(addresses) if as_json else _explain(addresses, build))
            up = True
            foreign = ForeignMappings(platform, sys.stderr)
            while True:
                foreign.look()
                time.sleep(_LOOK_EVERY)
                changes.look()
    except (ServerError, DeployError) as error:
        raise ConfigurationError([str(error)], source="lanes local") from error
    except KeyboardInterrupt:
        return 0 if up else _INTERRUPTED


def _last_line(build: Path, *, since: float) -> str:
    """Return what the `cdk` command is at: the end of its log, unless that is of an earlier run."""
    log = build / "logs" / "deploy.log"
    if not log.is_file() or log.stat().st_mtime < since:
        return "AWS starts on this machine"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next(filter(None, reversed(lines)), "cdk starts")


def describe(platform: Platform) -> dict[str, Any]:
    """
    Return the addresses of the running resources.

    Keys: `endpoint_url`, `lanes` (address by lane name; for another app by name of the mapped queue),
    `stack`, `dead_letters` and `table` if the app has lanes, `stacks` (outputs by stack), `region`,
    `environment` (variables that lead an AWS SDK here).
    """
    variables = platform.variables()
    found = {
        "endpoint_url": platform.endpoint_url,
        "region": variables["AWS_REGION"],
        "environment": variables,
        "stacks": platform.outputs,
    }
    deployment = _lanes_of(platform)
    if deployment is None:
        sqs = platform.client("sqs")
        names = sorted({mapping.queue_name for mapping in platform.mappings.values()})
        return found | {"lanes": {name: _local_url(sqs, name) for name in names}}
    return found | deployment


def _lanes_of(platform: Platform) -> dict[str, Any] | None:
    """Lanes and table as a producer finds them: by the stack's name, of the first stack that has lanes."""
    clients = platform.client("ssm"), platform.client("sqs")
    found = (_lanes_in(stack, *clients) for stack in platform.outputs)
    return next((lanes for lanes in found if lanes is not None), None)


def _lanes_in(stack: str, ssm: Any, sqs: Any) -> dict[str, Any] | None:
    try:
        answer = ssm.get_parameter(Name=parameter_name(stack))
        document: Mapping[str, Any] = json.loads(answer["Parameter"]["Value"])
    except (ClientError, ValueError):
        return None
    queues = document["queues"]
    return {
        "stack": stack,
        "lanes": {name: _local_url(sqs, queue["url"]) for name, queue in queues.items()},
        "dead_letters": {name: _local_url(sqs, queue["dead_letter_url"]) for name, queue in queues.items()},
        "table": document["table"],
    }


def _local_url(sqs: Any, name_or_url: str) -> str:
    """Return the address on this machine: CloudFormation's has the host of the real SQS."""
    return str(sqs.get_queue_url(QueueName=name_or_url.rpartition("/")[2])["QueueUrl"])


def _variables(addresses: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that lead an AWS SDK and the lanes command to the app."""
    stack = {"LANES_STACK": addresses["stack"]} if "stack" in addresses else {}
    return {**addresses["environment"], **stack}


def _explain(addresses: Mapping[str, Any], build: Path) -> str:
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in _variables(addresses).items()]
    lanes = [f"  {name:<12} {url}" for name, url in addresses["lanes"].items()]
    return "\n".join(
        [
            f"AWS on this machine: {addresses['endpoint_url']}",
            *("", "Lanes:", *lanes),
            *(
                "",
                "In another terminal, in the folder of the app: lanes local run COMMAND, or for a whole shell:",
            ),
            *exports,
            "Version 1 of the AWS CLI does not read AWS_ENDPOINT_URL for SQS: add --endpoint-url to its commands.",
            *(
                "",
                "Functions run in the folder of the app: a saved handler is live at once, other changes are deployed.",
            ),
            f"Logs of server, deploy and functions: {build / 'logs'}",
            "Stop with Ctrl-C.",
        ]
    )


class ForeignMappings:
    """Prints each such mapping once: no deploy refuses one that was made outside a stack."""

    def __init__(self, platform: Platform, stream: TextIO) -> None:
        self._platform = platform
        self._stream = stream
        self._seen: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Print the mappings that are new since the last call."""
        mappings = [
            (uuid, one.queue_name, one.function, one.enabled)
            for uuid, one in self._platform.mappings.items()
            if isinstance(one.function, DeployedFunction)
        ]
        # A disabled one brings nothing; it is shown when it is enabled.
        new = [one[:3] for one in mappings if one[3] and (one[0], one[2].name) not in self._seen]
        self._seen |= {(uuid, function.name) for uuid, _, function in new}
        for uuid, queue, function in new:
            lanes = self._lanes_of(function)
            # A function that only sends may have the lanes' document too, and a queue of its own.
            is_consumer = lanes is not None and any(
                lanes.reads(name) for _, name, other, _ in mappings if other is function
            )
            if lanes is not None and is_consumer and not lanes.reads(queue):
                self._stream.write(
                    f"{function.name}: mapping {uuid} brings it messages of {queue}, which is not a lane: each batch "
                    "fails\n  lanes check describes what to do\n"
                )
                self._stream.flush()

    def _lanes_of(self, function: DeployedFunction) -> Deployment | None:
        try:
            return deployment_from_env(function.settings.variables, ssm=lambda: self._platform.client("ssm"))
        except (AwsError, ConfigurationError):
            return None
