"""
The table of AWS's error codes: the failures that pass by themselves, and the cause of all others.

Producers, relays, consumers and Spark jobs share it. The codes and statuses that pass are those of botocore's standard
retry mode (`botocore/retries/standard.py`, `botocore/data/_retry.json`) and of the AWS SDKs and tools reference guide,
"Retry behavior"; a test compares them with botocore. The codes of SQS are in its API reference (SendMessageBatch,
"Common error types").
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why a call failed."""

    THROTTLED = "throttled"
    """AWS asks for fewer calls; it refused the call before any work."""
    SERVER_FAULT = "server_fault"
    """AWS failed; the call may have taken effect."""
    UNREACHABLE = "unreachable"
    """No answer, or an unreadable one; the call may have taken effect."""
    CREDENTIALS = "credentials"
    """They are missing, incomplete, invalid or expired."""
    PERMISSION = "permission"
    """The caller has no right to the action, the resource or its key."""
    MISSING = "missing"
    """The resource does not exist."""
    OTHER = "other"
    """Anything else, such as an invalid parameter."""

    @property
    def passes(self) -> bool:
        """Whether the same call may succeed later without any change."""
        return self in {Cause.THROTTLED, Cause.SERVER_FAULT, Cause.UNREACHABLE}


THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "KmsThrottled",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        # AWS: a transaction with the same token still runs (API_TransactWriteItems); a repeat finds its result.
        "TransactionInProgressException",
    }
)
SERVER_FAULTS = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalServiceError",
        "ReplicatedWriteConflictException",
        "ServiceException",
        "ServiceFailure",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
# The request did not reach the service whole, or not in time.
TIMEOUTS = frozenset({"BadDigest", "IDPCommunicationError", "RequestTimeout", "RequestTimeoutException"})
# Exceptions of botocore and of the standard library for a call without an answer.
UNREACHED = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "ConnectionError",
        "EndpointConnectionError",
        "HTTPClientError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "ResponseParserError",
        "ResponseStreamingError",
        "SSLError",
    }
)
EXPIRED = frozenset(
    {
        "CredentialRetrievalError",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SSOTokenLoadError",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "UnrecognizedClientException",
    }
)
NO_CREDENTIALS = frozenset({"MissingAuthenticationToken", "NoCredentialsError", "PartialCredentialsError"})
# Beginnings of codes. AWS: SQS refuses a call for the key of its queue with codes that begin with Kms.
DENIED = (
    "AccessDenied",
    "AuthorizationError",
    "Kms",
    "KMS",
    "NotAuthorized",
    "OptInRequired",
    "UnauthorizedOperation",
)
GONE = frozenset(
    {"NonExistentQueue", "QueueDoesNotExist", "QueueDeletedRecently", "ResourceNotFoundException"}
)

# A whole call is refused with these if one of its messages is at fault.
MESSAGE_FAULTS = frozenset(
    {
        "BatchRequestTooLong",
        "InvalidAttributeName",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "MissingParameter",
        "ParamValidationError",
        "UnicodeEncodeError",
    }
)

TOO_MANY_REQUESTS, REQUEST_TIMEOUT, LOWEST_SERVER_FAULT = 429, 408, 500


def bare(code: str) -> str:
    """Return a code without its prefix."""
    # AWS: codes of SQS may have a prefix such as AWS.SimpleQueueService (SQS, error code mapping).
    return code.rpartition(".")[2]


def is_throttle(code: str, *, status: int = 0) -> bool:
    """Whether an error code or an HTTP status of AWS means throttling."""
    known = bare(code)
    return known in THROTTLES or "throttl" in known.lower() or status == TOO_MANY_REQUESTS


def cause_of(code: str, *, status: int = 0) -> Cause:
    """
    Return the cause of a failed call.

    Args:
        code: of AWS, or the name of an exception where no answer came.
        status: HTTP status; 0 if unknown.
    """
    known = bare(code)
    if is_throttle(code, status=status):
        return Cause.THROTTLED
    if known in UNREACHED or known in TIMEOUTS or status == REQUEST_TIMEOUT:
        return Cause.UNREACHABLE
    if known in SERVER_FAULTS or status >= LOWEST_SERVER_FAULT:
        return Cause.SERVER_FAULT
    if known in EXPIRED or known in NO_CREDENTIALS:
        return Cause.CREDENTIALS
    if known in GONE:
        return Cause.MISSING
    return Cause.PERMISSION if known.startswith(DENIED) else Cause.OTHER


def is_about_message(code: str) -> bool:
    """Whether the refusal of a whole call is about one of its messages, so that it may accept the others."""
    return bare(code) in MESSAGE_FAULTS


def may_pass(code: str, *, sender_fault: bool) -> bool:
    """Whether an entry that SQS refused in a batch may be accepted later, as it is."""
    # AWS: `SenderFault` is false for faults of SQS (BatchResultErrorEntry); a timeout or a throttle may be either.
    return not sender_fault or cause_of(code).passes
