"""Create the clients of AWS, with timeouts and retries for producers and consumers."""

from __future__ import annotations

import copy
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
from botocore.session import Session

from lanes.aws.errors import aws_errors
from lanes.config.deployment import VARIABLE, Deployment, pointed
from lanes.errors import AwsError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    import boto3
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

# Three tries of 13 s and their pauses: far below the five minutes in which SQS drops a repeat.
CONNECT_TIMEOUT_SECONDS = 3
READ_TIMEOUT_SECONDS = 10
# A slot that waits for a call serves no record, so the function would rather repeat a call than wait for it.
CONSUMER_TIMEOUT_SECONDS = 2
RELAY_READ_TIMEOUT_SECONDS = 3
# AWS: WaitTimeSeconds is at most 20 (API_ReceiveMessage).
LONGEST_POLL_SECONDS = 20
# botocore keeps ten connections; more threads than that would open and close one for each call.
CONNECTIONS = 32
# AWS: outside its isolated regions (AWS general reference, "Regional endpoints"; IAM user guide, "Amazon Resource
# Names").
DOMAINS = ("amazonaws.com", "amazonaws.com.cn")
PARTITIONS = {"cn": "aws-cn", "us-gov": "aws-us-gov"}
NO_REGION = (
    "no AWS region is known: neither region= (or --region), nor AWS_REGION or AWS_DEFAULT_REGION, nor the profile of "
    "the AWS configuration names one; give --region or set AWS_REGION; to reach AWS on this machine, run the command "
    "with `lanes local run`"
)


# Settings that botocore reads without an error of its own, by the file or variable that has them, in the order of its
# search, with the next step for each.
CREDENTIAL_SETTINGS = {
    "AWS_CREDENTIAL_EXPIRATION": "must be a time in the future, such as 2027-01-31T12:00:00Z: renew the keys",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "must be a readable file with the token of your identity provider",
    "web_identity_token_file": "must be a readable file with the token of your identity provider",
    "mfa_serial": "asks for a code: run the command in a terminal, or sign in with temporary keys first",
    "credential_process": "must be a command that prints JSON with Version 1, AccessKeyId, SecretAccessKey and, if "
    "they expire, a later Expiration: run it in a terminal",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "must be an address on this machine or of the container service",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "must be a readable file with one line",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "must be one line of text",
    "AWS_METADATA_SERVICE_TIMEOUT": "must be a whole number of seconds",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "must be a whole number",
    "metadata_service_timeout": "must be a whole number of seconds",
    "metadata_service_num_attempts": "must be a whole number",
}

CONFIDENTIAL = frozenset({"AWS_CONTAINER_AUTHORIZATION_TOKEN", "credential_process"})
"""Of these the settings whose value isn't shown: it may contain a key."""


def producer_config() -> Config:
    """
    Return the settings for producers, which slow down while AWS throttles.

    A call with its retries stays well under the five minutes in which SQS drops a repeat.
    """
    return Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "adaptive", "total_max_attempts": 3},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
    )


def consumer_config() -> Config:
    """Return the settings for the function: short timeouts, since the record's time runs in the meantime."""
    return Config(
        connect_timeout=CONSUMER_TIMEOUT_SECONDS,
        read_timeout=CONSUMER_TIMEOUT_SECONDS,
        # Not adaptive: a client that slows itself down sleeps before its calls, in the function's time.
        retries={"mode": "standard", "total_max_attempts": 2},
        tcp_keepalive=True,
    )


def receiver_config(*, longest_wait: timedelta) -> Config:
    """
    Return the settings for the function's receives, which are tried three times.

    A lost answer hides its records for their visibility timeout unless the call is repeated.

    Args:
        longest_wait: the longest time that a receive waits at SQS for a first record, cut to 20 s.
    """
    return Config(
        connect_timeout=CONSUMER_TIMEOUT_SECONDS,
        read_timeout=CONSUMER_TIMEOUT_SECONDS + min(longest_wait.total_seconds(), LONGEST_POLL_SECONDS),
        retries={"mode": "standard", "total_max_attempts": 3},
        tcp_keepalive=True,
    )


def relay_config() -> Config:
    """
    Return the settings for a relay's sends: short timeouts and no retries.

    The relay itself tries again, so that no lane waits for the retries of another.
    """
    return Config(
        connect_timeout=CONSUMER_TIMEOUT_SECONDS,
        read_timeout=RELAY_READ_TIMEOUT_SECONDS,
        # Not adaptive: throttling of one lane would slow down all lanes of the client.
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
    )


class Place(NamedTuple):
    """Where a service is: its address, and the region and partition of AWS."""

    address: str
    region: str
    partition: str = "aws"


def place_of(client: Any) -> Place:
    """Return where a client of boto3 calls its service."""
    return Place(client.meta.endpoint_url, client.meta.region_name, client.meta.partition)


class Clients:
    """
    Creates clients for one region or endpoint.

    Args:
        region: AWS region; by default that of the session, which botocore takes from AWS_DEFAULT_REGION or the
            profile, then AWS_REGION.
        endpoint_url: address of AWS on this machine.
        session: session of boto3; by default a new one, since threads may share clients but not sessions.
        config: timeouts and retries; by default those of producers.
        profile: profile of the AWS configuration, if you give no session.

    Raises:
        AwsError: there is no such profile.
    """

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        config: Config | None = None,
        profile: str | None = None,
    ) -> None:
        with aws_errors("Session"):
            # boto3's sessions wrap botocore's, which alone knows the settings. Importing boto3 for it would be 6 % of
            # a function's cold start.
            self._session = session._session if session else Session(profile=profile)  # noqa: SLF001
            named = self._session.get_config_variable("region")
        # Lambda sets AWS_REGION, which botocore does not read.
        self._region = region or named or os.environ.get("AWS_REGION") or None
        self._endpoint_url = endpoint_url
        self._config = config or producer_config()

    @property
    def config(self) -> Any:
        """Timeouts and retries, as an object of botocore."""
        return self._config

    @property
    def agent(self) -> str:
        """What requests name as their sender."""
        return str(self._session.user_agent())

    def with_config(self, config: Config) -> Clients:
        """Return clients of the same session with other timeouts and retries."""
        other = copy.copy(self)
        other._config = config  # noqa: SLF001
        return other

    def sqs(self) -> SQSClient:
        """Create a client of SQS."""
        return cast("SQSClient", self.operations("sqs"))

    def ssm(self) -> SSMClient:
        """Create a client of Systems Manager, for its parameters."""
        return cast("SSMClient", self.operations("ssm"))

    def dynamodb(self) -> DynamoDBClient:
        """Create a client of DynamoDB."""
        return cast("DynamoDBClient", self.operations("dynamodb"))

    def operations(self, service: str, *, tries: int | None = None) -> Any:
        """
        Create a client of a service by its name, such as `lambda` or `cloudwatch`.

        `tries` is the number of tries of each call; by default that of the settings.

        Raises:
            AwsError: the AWS configuration has another fault.
            ConfigurationError: the region is unknown or invalid, the endpoint is not an address, credentials can't be
                read, or the file of trusted certificates is missing.
        """
        session: Any = self._session
        config = self._config
        if tries is not None:
            retries: Any = {**(getattr(config, "retries", None) or {}), "total_max_attempts": tries}
            config = config.merge(Config(retries=retries))
        with aws_errors("Client"):
            self._check_credentials()
            try:
                client = session.create_client(
                    service, region_name=self._region, endpoint_url=self._endpoint_url, config=config
                )
            except NoRegionError:
                # Its own message and frames say nothing more.
                raise ConfigurationError([NO_REGION], source="AWS") from None
            except InvalidRegionError as error:
                problem = (
                    f"{error.kwargs['region_name']!r} is not an AWS region. Use one such as eu-central-1"
                )
                raise ConfigurationError([problem], source="AWS") from error
            except ValueError as error:
                # botocore's own way to refuse an address; the message names it.
                problem = (
                    f"{error}; an address such as http://127.0.0.1:4566 is needed, or none for AWS itself"
                )
                raise ConfigurationError([problem], source="AWS") from error
        if client.meta.endpoint_url.startswith("https:"):
            self._check_ca_bundle()
        return client

    def _check_credentials(self) -> None:
        """Read them as botocore does at the first call, where a missing file or command is a traceback."""
        found = self._read(self._session.get_credentials)
        if isinstance(found, RefreshableCredentials):
            # A provider that can't be reached now is the affair of the call, which tries again.
            with suppress(BotoCoreError, ClientError):
                self._read(found.get_frozen_credentials)

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ParamValidationError as error:  # of a call with what it read, such as an empty token
            raise self._unreadable(error) from error
        except (BotoCoreError, ClientError):
            raise
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ConfigurationError:
        """Name the settings that may be to blame, each with the next step."""
        profile = self._session.get_scoped_config()
        steps = [
            f"{name}{'' if name in CONFIDENTIAL else f' ({value})'} {step}"
            for name, step in CREDENTIAL_SETTINGS.items()
            if (value := os.environ.get(name) if name.isupper() else profile.get(name)) is not None
        ]
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        return ConfigurationError([f"AWS credentials can't be read: {reason}", *steps], source="AWS")

    def _check_ca_bundle(self) -> None:
        named = self.ca_bundle()
        # botocore takes a folder too, and reads either at the first call.
        if named is not None and not Path(named).exists():
            problem = (
                f"the file of trusted certificates {named!r} is missing; AWS_CA_BUNDLE or ca_bundle of the profile "
                f"names it: correct it, or unset it to trust botocore's certificates"
            )
            raise ConfigurationError([problem], source="AWS")

    def place(self, service: str, *, near: str = "") -> Place:
        """
        Return where a service is; where AWS's usual addresses are used, no client is created to know it.

        Args:
            service: `sqs` or `dynamodb`.
            near: URL of a queue in the region.

        Raises:
            AwsError: as for a client.
            ConfigurationError: as for a client.
        """
        host, region = urlsplit(near).netloc, str(self._region)
        if host in {f"sqs.{region}.{domain}" for domain in DOMAINS} and not self._has_own_addresses():
            with aws_errors("Client"):
                self._check_credentials()
            self._check_ca_bundle()
            partition = PARTITIONS.get(region.rsplit("-", 2)[0], "aws")
            return Place(f"https://{host.replace('sqs', service, 1)}", region, partition)
        return place_of(self.operations(service))

    def _has_own_addresses(self) -> bool:
        return (
            self._endpoint_url is not None
            or self.has_variants
            or any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)
            or not {"services", "endpoint_url"}.isdisjoint(self._session.get_scoped_config())
        )

    @property
    def has_variants(self) -> bool:
        """Whether FIPS or dual-stack addresses are asked for."""
        read: Any = self._session.get_config_variable
        variants = ("use_fips_endpoint", "use_dualstack_endpoint")
        return any(getattr(self._config, name, None) or read(name) for name in variants)

    def answers(self, service: str, request: AWSPreparedRequest) -> bool:
        """Whether something answers a request in place of the network, such as moto."""
        events: Any = self._session.get_component("event_emitter")
        return any(answer is not None for _, answer in events.emit(f"before-send.{service}", request=request))

    def credentials(self) -> Callable[[], ReadOnlyCredentials]:
        """
        Return a function that returns the current credentials, refreshed by botocore.

        Raises:
            NoCredentialsError: there are none; an error of botocore.
        """
        found = self._session.get_credentials()
        if found is None:
            raise NoCredentialsError
        # A function, since credentials of roles expire and botocore refreshes them in it.
        return found.get_frozen_credentials

    def ca_bundle(self) -> str | None:
        """Return the file of trusted certificates, if AWS_CA_BUNDLE or the profile names one."""
        named = self._session.get_config_variable("ca_bundle")
        return None if named is None else str(named)


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
