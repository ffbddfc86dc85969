"""Read a deployment from the parameters of its account."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lanes.aws.clients import Clients, consumer_config
from lanes.aws.errors import aws_errors
from lanes.config.deployment import VARIABLE, Deployment, pointed
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_ssm import SSMClient


def parameter_name(stack_name: str) -> str:
    """Return the name of the parameter with the lanes of a stack."""
    return f"/lanes/{stack_name}"


def deployment_from_env(
    environ: Mapping[str, str] | None = None, *, ssm: Callable[[], SSMClient] | None = None
) -> Deployment:
    """
    Read the deployment of a function from its variable, or from the parameter that the variable names.

    Args:
        environ: the variables; by default those of the process.
        ssm: returns the client, which few functions need; by default one of the process.

    Raises:
        ConfigurationError: the variable is missing or invalid, or what it names is.
        AwsError: the parameter can't be read.
    """
    environ = os.environ if environ is None else environ
    found = pointed(environ.get(VARIABLE))
    if found is None:
        return Deployment.from_env(environ)
    name = found["parameter"]
    with aws_errors("GetParameter"):
        client = ssm() if ssm else Clients(config=consumer_config()).ssm()
        answer = client.get_parameter(Name=name)
    return Deployment.from_json(_value(answer), source=f"parameter {name}")


def read_deployment(ssm: SSMClient, stack_name: str) -> Deployment:
    """
    Read the deployment of a stack.

    Raises:
        ConfigurationError: the stack has no such parameter, or its content is invalid.
        AwsError: the call failed.
    """
    name = parameter_name(stack_name)
    try:
        with aws_errors("GetParameter"):
            answer = ssm.get_parameter(Name=name)
    except AwsError as error:
        # All other errors, such as missing rights, say nothing about the stack.
        if error.code != "ParameterNotFound":
            raise
        problem = (
            f"there is no parameter {name}; is the stack deployed in this account and region? To reach AWS on this "
            f"machine, run the command with `lanes local run`"
        )
        raise ConfigurationError(
            [problem],
            source=f"stack {stack_name}",
        ) from error
    return Deployment.from_json(_value(answer), source=f"parameter {name}")


def _value(answer: Any) -> str:
    """Return the value of a parameter; empty if the server is not AWS and answers something else."""
    return str(answer.get("Parameter", {}).get("Value", ""))
