"""Makes the clients of boto3, with the timeouts and retries that suit their user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import InvalidRegionError, NoCredentialsError, NoRegionError

from lanes.aws.errors import aws_errors
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.credentials import ReadOnlyCredentials
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

CONNECT_TIMEOUT_SECONDS = 3
READ_TIMEOUT_SECONDS = 10
CONSUMER_TIMEOUT_SECONDS = 2
CONNECTIONS = 32
NO_REGION = (
    "no AWS region is known: neither region= (or --region), nor AWS_REGION or AWS_DEFAULT_REGION, nor the profile of "
    "the AWS configuration names one; give --region or set AWS_REGION"
)


def producer_config() -> Config:
    """
    Give the settings for producers: they slow down by themselves while AWS throttles.

    A call with its tries stays well under the five minutes in which SQS recognises a repeat.
    """
    return Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "adaptive", "total_max_attempts": 3},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
    )


def consumer_config() -> Config:
    """Give the settings for the function: short waits, since a record's time runs while it waits."""
    return Config(
        connect_timeout=CONSUMER_TIMEOUT_SECONDS,
        read_timeout=CONSUMER_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 2},
        tcp_keepalive=True,
    )


class Clients:
    """
    Makes clients for one place.

    Args:
        region: AWS region; without it that of the session, which botocore takes from AWS_DEFAULT_REGION or the profile,
            or else AWS_REGION.
        endpoint_url: where AWS is, for AWS on this machine.
        session: session of boto3 to make them with; without it a new one, since clients are safe to share
            between threads and sessions are not.
        config: timeouts and retries; those of producers unless given.
        profile: profile of the AWS configuration, where no session is given.

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
            self._session = session or boto3.Session(profile_name=profile)
        self._region = region or self._session.region_name or os.environ.get("AWS_REGION") or None
        self._endpoint_url = endpoint_url
        self._config = config or producer_config()

    def sqs(self) -> SQSClient:
        """Make a client for SQS."""
        return cast("SQSClient", self.operations("sqs"))

    def ssm(self) -> SSMClient:
        """Make a client for the Systems Manager's parameters."""
        return cast("SSMClient", self.operations("ssm"))

    def dynamodb(self) -> DynamoDBClient:
        """Make a client for DynamoDB."""
        return cast("DynamoDBClient", self.operations("dynamodb"))

    def operations(self, service: str) -> Any:
        """
        Make a client for a service by its name, such as `lambda` or `cloudwatch`.

        Raises:
            ConfigurationError: no region is known, or it is none, or the endpoint is no address.
        """
        session: Any = self._session
        try:
            return session.client(
                service, region_name=self._region, endpoint_url=self._endpoint_url, config=self._config
            )
        except NoRegionError as error:
            raise ConfigurationError([NO_REGION], source="AWS") from error
        except InvalidRegionError as error:
            problem = f"{error.kwargs['region_name']!r} is no AWS region; one such as eu-central-1 is needed"
            raise ConfigurationError([problem], source="AWS") from error
        except ValueError as error:
            # botocore's own way to refuse an address; the message names it.
            problem = f"{error}; an address such as http://127.0.0.1:4566 is needed, or none for AWS itself"
            raise ConfigurationError([problem], source="AWS") from error

    def credentials(self) -> Callable[[], ReadOnlyCredentials]:
        """
        Give what gives the credentials of the moment, kept fresh by botocore.

        Raises:
            NoCredentialsError: there are none; botocore's own error.
        """
        found = self._session.get_credentials()
        if found is None:
            raise NoCredentialsError
        return found.get_frozen_credentials

    def ca_bundle(self) -> str | None:
        """Give the file of the certificates to trust, where AWS_CA_BUNDLE or the profile names one."""
        # boto3 hides botocore's session, which alone knows it.
        named = self._session._session.get_config_variable("ca_bundle")  # noqa: SLF001
        return None if named is None else str(named)
