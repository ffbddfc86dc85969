"""`lanes local up`: an app deployed to AWS on this machine, and deployed again when its files change."""

import contextlib
import json
import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer
from botocore.exceptions import ClientError

from lanes.aws.parameters import parameter_name
from lanes.cli.busy import busy
from lanes.cli.printing import say
from lanes.cli.usage import UsageError
from lanes.errors import ConfigurationError

from .account import without_aws_settings
from .changes import Files
from .deploy import CdkApp, DeployError
from .foreign_mappings import ForeignMappings
from .function import DeployedFunction
from .interrupts import interrupt_once
from .live_code import LiveCode
from .platform import Platform
from .server import ServerError
from .state import build_folder, claimed
from .unknowns import unknowns_of, variant_names

_LOOK_EVERY = 0.5
"""Seconds between two looks at the files of the app: a look at a thousand takes 10 ms."""
_INTERRUPTED = 130
_TROUBLE = re.compile(r"(?s)Init failed: .*|Runtime exited with status -?\w+|Task timed out after .*")


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
    troubles = FunctionTroubles(sys.stderr, build / "logs")
    platform = Platform(
        app=app,
        port=port,
        seed=seed,
        unknowns=unknowns_of(variants) if variants else None,
        figures=True,
        on_line=troubles,
        build_directory=build,
    )
    interrupt_once()
    up = False
    try:
        with contextlib.ExitStack() as stack:
            record = stack.enter_context(claimed(folder))
            deployed = Files.of(folder)
            with _deploying(folder):
                stack.enter_context(platform)
            addresses = describe(platform)
            record(_variables(addresses))
            typer.echo(json.dumps(addresses) if as_json else _explain(addresses, build))
            up = True
            foreign = ForeignMappings(platform, sys.stderr)
            Changes(app, platform, troubles, LiveCode(folder, build / "code")).follow(
                deployed, look=foreign.look
            )
    except (ServerError, DeployError) as error:
        raise ConfigurationError([str(error)], source="lanes local") from error
    except KeyboardInterrupt:
        return 0 if up else _INTERRUPTED


def _deploying(folder: Path) -> contextlib.AbstractContextManager[None]:
    began = time.monotonic()
    return busy(lambda: f"deploying {folder}, {time.monotonic() - began:.0f} s ...")


class Changes:
    """
    Runs changed code, and deploys the app again when its files change; prints how long it took.

    Args:
        app: the app.
        platform: where it is deployed.
        troubles: prints the faults of its functions.
        live: runs changed code before its deploy.
    """

    def __init__(self, app: CdkApp, platform: Platform, troubles: "FunctionTroubles", live: LiveCode) -> None:
        self._app = app
        self._platform = platform
        self._troubles = troubles
        self._live = live
        self._generations: dict[str, int] = {}

    def follow(self, deployed: Files, *, look: Callable[[], object]) -> NoReturn:
        """Follow changes since this deploy, and call `look` before each look at the files."""
        self.take_deploy(deployed)
        while True:
            look()
            time.sleep(_LOOK_EVERY)
            now, looked_at = Files.of(self._app.directory), time.time()
            changed = now.changed_since(deployed)
            if changed:
                deployed = now
                saved_at = max([now.times.get(name, 0.0) for name in changed] + [looked_at - _LOOK_EVERY])
                self.take(changed, now, saved_at=saved_at)

    def take(self, changed: Sequence[str], files: Files, *, saved_at: float) -> None:
        """
        Run and deploy a change, unless it can't be imported: then the earlier code runs on.

        Args:
            changed: the names of the changed files.
            files: all files.
            saved_at: the time of the change.
        """
        names = ", ".join(changed)
        functions, faults = self._platform.functions, self._live.run(changed)
        for name, fault in faults.items():
            if fault is None:
                say(f"{names}: live in {name} {time.time() - saved_at:.1f} s after you saved")
                self._retry(functions[name])
            else:
                say(f"{names}: not live, {name} runs its earlier code: {fault}")
        if any(faults.values()) and self._live.is_all(changed):
            say(f"not deployed: {names}; save a file to try again")
            return
        try:
            with _deploying(self._app.directory):
                self._platform.deploy(self._app)
        except DeployError as error:
            say(f"{error}\nnot deployed: {names}; save a file to try again")
        else:
            say(f"{names}: deployed {time.time() - saved_at:.1f} s after you saved")
            self.take_deploy(files, live=faults)

    def take_deploy(self, files: Files, *, live: Collection[str] = ()) -> None:
        """
        Start the functions that have changed: one that can't start shows it now, not with its first message.

        Args:
            files: all files.
            live: names of functions that ran the change before, so that their messages have been tried again.
        """
        functions = self._platform.functions
        self._live.find(functions, files.times)
        for function in functions.values():
            if self._generations.get(function.name) != function.generation:
                self._troubles.forget(function.name)
                if function.start() and function.name not in live:
                    self._retry(function)
        self._generations = {function.name: function.generation for function in functions.values()}

    def _retry(self, function: DeployedFunction) -> None:
        """Return messages that other code of the function has failed on."""
        given_back = self._platform.give_back_failed(function)
        if given_back:
            say(f"{function.name}: messages of failed invocations that are visible again: {given_back}")


class FunctionTroubles:
    """
    Prints each fault of a function once: it can't start, ends unexpectedly or takes too long.

    A function that does not start writes no event for its messages.
    """

    def __init__(self, stream: TextIO, logs: Path) -> None:
        self._stream = stream
        self._logs = logs
        self._told: set[tuple[str, str]] = set()

    def __call__(self, function_name: str, line: str) -> None:
        """Take one line of a function."""
        found = _TROUBLE.search(line)
        if found and (function_name, found[0]) not in self._told:
            self._told.add((function_name, found[0]))
            self._stream.write(
                f"{function_name}: {found[0]}\n  see {self._logs / f'{function_name}.log'}\n"
                "  its messages return when their visibility timeout ends, or at once when you save a correction\n"
            )
            self._stream.flush()

    def forget(self, function_name: str) -> None:
        """Print the faults of a function again, since its code is another one."""
        self._told = {one for one in self._told if one[0] != function_name}


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
            *("", "Changes of the app's files are deployed when you save them."),
            f"Logs of server, deploy and functions: {build / 'logs'}",
            "Stop with Ctrl-C.",
        ]
    )
