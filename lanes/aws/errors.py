"""Turns what botocore raises into `AwsError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own name
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
)
from botocore.parsers import ResponseParserError

from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER_FAULT = 500
TRANSIENT = (
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    ResponseParserError,
)
OTHER_THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
NOT_AWS = "what answers here is not AWS, or knows no such call"
SERVER_FAULTS = frozenset({"InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable"})


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """
    Run a call to AWS.

    Args:
        operation: name of the API operation, for the error.

    Raises:
        AwsError: whatever botocore raised inside, kept as the cause.
    """
    try:
        yield
    except ClientError as error:
        raise _refused(operation, error) from error
    except TRANSIENT as error:
        # botocore says of an answer that it can't read where its parser stopped, which tells nobody anything.
        raise AwsError(
            operation=operation,
            code=type(error).__name__,
            message=NOT_AWS if isinstance(error, ResponseParserError) else str(error),
            retryable=True,
            answered=False,
        ) from error
    except BotoCoreError as error:
        raise AwsError(
            operation=operation, code=type(error).__name__, message=str(error), retryable=False
        ) from error


def is_throttle(code: str) -> bool:
    """Tell whether an error code of AWS asks to slow down."""
    return "throttl" in code.lower() or code.rpartition(".")[2] in OTHER_THROTTLES


def is_server_fault(code: str) -> bool:
    """Tell whether an error code of AWS names a fault within AWS."""
    return code.rpartition(".")[2] in SERVER_FAULTS


def _refused(operation: str, error: ClientError) -> AwsError:
    details = error.response.get("Error", {})
    code = str(details.get("Code", "Unknown"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    throttled = is_throttle(code)
    fault = not throttled and (status >= SERVER_FAULT or is_server_fault(code))
    return AwsError(
        operation=operation,
        code=code,
        message=_words(str(details.get("Message", ""))),
        retryable=throttled or fault,
        answered=not fault,
    )


def _words(message: str) -> str:
    """Return what was said, or what it means that a web page was sent in its place."""
    is_page = message.lstrip().lower().startswith(("<!doctype", "<html"))
    return NOT_AWS if is_page else message
