"""Convert the exceptions of botocore to `AwsError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own name
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
)
from botocore.parsers import ResponseParserError

from lanes.errors import AwsError
from lanes.fault_codes import Cause, cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSIENT = (
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    ResponseParserError,
)
NO_CREDENTIALS = (
    "Unable to locate credentials; sign in to AWS, or to reach AWS on this machine, run the command with "
    "`lanes local run`"
)
NOT_AWS = "the server is not AWS, or does not know the call"


# AWS: one code for a condition that does not hold and for what passes; the reasons tell them apart, one for each
# action, "None" for those that are not to blame (DynamoDB, "TransactWriteItems", cancellation reasons).
CANCELLED = "TransactionCanceledException"
NO_REASON = "None"
PASSING_REASONS = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
# AWS: a write of an item that a transaction is writing (DynamoDB, "Transaction conflict handling").
CONFLICTS = frozenset({"TransactionConflictException", "TransactionInProgressException"})


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """
    Run a call to AWS.

    Args:
        operation: name of the API operation, for the error.

    Raises:
        AwsError: caused by the exception of botocore.
    """
    try:
        yield
    except ClientError as error:
        raise _refused(operation, error) from error
    except TRANSIENT as error:
        # botocore reports where its parser stopped in an unreadable answer, which helps no reader.
        raise AwsError(
            operation=operation,
            code=type(error).__name__,
            message=NOT_AWS if isinstance(error, ResponseParserError) else str(error),
            retryable=True,
            answered=False,
        ) from error
    except NoCredentialsError as error:
        raise _unsent(operation, error, NO_CREDENTIALS) from error
    except BotoCoreError as error:
        raise _unsent(operation, error, str(error)) from error


def _unsent(operation: str, error: BotoCoreError, message: str) -> AwsError:
    return AwsError(operation=operation, code=type(error).__name__, message=message, retryable=False)


def _refused(operation: str, error: ClientError) -> AwsError:
    details = error.response.get("Error", {})
    code = str(details.get("Code", "Unknown"))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    cause = cause_of(code, status=status)
    given: Any = error.response.get("CancellationReasons", ())
    reasons = tuple(str(reason.get("Code", NO_REASON)) for reason in given)
    causes = set(reasons) - {NO_REASON}
    conflicted = code in CONFLICTS or (code == CANCELLED and bool(causes) and causes <= PASSING_REASONS)
    return AwsError(
        operation=operation,
        code=code,
        message=_text(str(details.get("Message", ""))),
        retryable=cause.passes or conflicted,
        # A throttled call was refused before any work. Any other failure of AWS may come after it, so the message may
        # be in its queue.
        answered=cause is Cause.THROTTLED or not cause.passes,
        reasons=reasons,
    )


def _text(message: str) -> str:
    """Return the message; a web page in its place means that the server is not AWS."""
    is_page = message.lstrip().lower().startswith(("<!doctype", "<html"))
    return NOT_AWS if is_page else message
