"""`python -m local up`: AWS on this machine with an app deployed, for experiments, until stopped."""

import argparse
import json
import re
import shlex
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import ClientError

from lanes.aws.parameters import parameter_name
from local.deploy import CdkApp, DeployError, command_variables, deploy_arguments
from local.interrupts import interrupt_once
from local.platform import BUILD, ROOT, Platform
from local.server import ServerError
from local.unknowns import unknowns_of, variant_names

_LARGEST_PORT = 65_535
_INTERRUPTED = 130
# As the runtime and the platform write them; the runtime puts carriage returns between its lines.
_TROUBLE = re.compile(r"Runtime\.\w+Error: [^\r]*|Runtime exited with status -?\w+|Task timed out after .*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `up`."""
    parser.add_argument(
        "--port", type=_port, default=0, help="port of the AWS endpoint (default: a free one)"
    )
    parser.add_argument("--json", action="store_true", help="print the addresses as one JSON line")
    parser.add_argument("--app", type=Path, default=ROOT, help="folder of a CDK app (default: this one)")
    parser.add_argument("--stage", help="stage to deploy, as `cdk deploy -c stage=...`")
    parser.add_argument(
        "--context", "-c", action="append", default=[], metavar="KEY=VALUE", help="further CDK context"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of behaviour that AWS does not document (default: 0)"
    )
    parser.add_argument(
        "--variant",
        action="append",
        choices=variant_names(),
        metavar="NAME",
        help="behave so where AWS documents nothing, by the names of `lanes simulate --unknowns all`; repeatable: "
        + "; ".join(f"'{name}'" for name in variant_names()),
    )
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 (a free one) to {_LARGEST_PORT}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Deploy, print the addresses and run until a signal arrives."""
    wrong = [item for item in options.context if "=" not in item]
    if wrong:
        return _complain(f"--context takes KEY=VALUE, not {wrong[0]!r}")
    context = dict(item.split("=", 1) for item in options.context)
    app = CdkApp(directory=options.app.resolve(), stage=options.stage, context=context)
    interrupt_once()
    if not options.json:
        sys.stderr.write(f"deploying {app.directory} ...\n")
    up = False
    try:
        with Platform(
            app=app,
            port=options.port,
            seed=options.seed,
            unknowns=unknowns_of(options.variant) if options.variant else None,
            figures=True,
            on_line=FunctionTroubles(sys.stderr),
        ) as platform:
            addresses = describe(platform)
            sys.stdout.write((json.dumps(addresses) if options.json else _explain(addresses, app)) + "\n")
            sys.stdout.flush()
            up = True
            threading.Event().wait()
    except (ServerError, DeployError) as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return 0 if up else _INTERRUPTED
    return 0


class FunctionTroubles:
    """
    Prints each fault of a function once: it can't start, ends unexpectedly or takes too long.

    A function that does not start writes no event for its messages.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: set[tuple[str, str]] = set()

    def __call__(self, function_name: str, line: str) -> None:
        """Take one line of a function."""
        found = _TROUBLE.search(line)
        if found and (function_name, found[0]) not in self._told:
            self._told.add((function_name, found[0]))
            log = BUILD / "logs" / f"{function_name}.log"
            self._stream.write(f"{function_name}: {found[0]}\n  see {log}\n")
            self._stream.flush()


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
        return found | {"lanes": {name: _local_url(sqs, name) for name in sorted(platform.mappings)}}
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


def _explain(addresses: Mapping[str, Any], app: CdkApp) -> str:
    variables = dict(addresses["environment"])
    if "stack" in addresses:
        variables["LANES_STACK"] = addresses["stack"]
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lanes = [f"  {name:<12} {url}" for name, url in addresses["lanes"].items()]
    return "\n".join(
        [
            f"AWS on this machine: {addresses['endpoint_url']}",
            *("", "Lanes:", *lanes),
            *("", "In another terminal, for any AWS SDK and the lanes command:", *exports),
            "Version 1 of the AWS CLI does not read AWS_ENDPOINT_URL for SQS: add --endpoint-url to its commands.",
            *("", "and then, to deploy a change, which is followed within two seconds:"),
            *(f"  {line}" for line in _deploy_lines(app)),
            *("", f"Logs of server, deploy and functions: {BUILD / 'logs'}", "Stop with Ctrl-C."),
        ]
    )


def _deploy_lines(app: CdkApp) -> list[str]:
    """Shell lines that deploy the app once more, after the exports for any SDK."""
    variables = command_variables(app)
    path = variables.pop("PATH")
    settings = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    # For cdk alone: with its PYTHONPATH, the lanes command of the same shell would not find its other packages.
    command = [
        "env",
        *settings,
        f"PATH={shlex.quote(path)}:$PATH",
        shlex.join(["cdk", *deploy_arguments(app)]),
    ]
    return [f"cd {shlex.quote(str(app.directory))}", " ".join(command)]


def _complain(text: str) -> int:
    sys.stderr.write(f"local up: {text}\n")
    return 1
