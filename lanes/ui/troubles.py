"""What went wrong, in words for somebody who is woken at night: what it means and what to do."""

from __future__ import annotations

import dataclasses

from lanes.aws.errors import is_throttle
from lanes.errors import AwsError, ConfigurationError, LanesError, MessageError

EXPIRED = frozenset(
    {
        "CredentialRetrievalError",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "UnrecognizedClientException",
    }
)
MISSING = frozenset({"NoCredentialsError", "PartialCredentialsError"})
DENIED = ("AccessDenied", "AuthorizationError", "NotAuthorized", "UnauthorizedOperation")
UNREACHED = frozenset(
    {
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "ConnectionError",
        "EndpointConnectionError",
        "ProxyConnectionError",
        "ReadTimeoutError",
    }
)

SIGN_IN = (
    "Sign in again in a terminal, for example `aws sso login`; the page goes on by itself. "
    "Keys that came from environment variables need `lanes ui` to be started again."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """
    An error as the page shows it.

    Attributes:
        status: of HTTP.
        title: what it means.
        advice: what to do, empty where nobody knows.
        details: what AWS or the library said.
        needs_sign_in: whether new credentials would end it.
    """

    status: int
    title: str
    advice: str = ""
    details: str = ""
    needs_sign_in: bool = False


def trouble_of(error: LanesError) -> Trouble:
    """Explain an error."""
    if isinstance(error, AwsError):
        return _aws(error)
    if isinstance(error, ConfigurationError):
        return Trouble(status=400, title="; ".join(error.problems))
    return Trouble(status=400 if isinstance(error, MessageError) else 409, title=str(error))


def _aws(error: AwsError) -> Trouble:
    code = error.code.rpartition(".")[2]
    details = str(error)
    if code in EXPIRED:
        title = "Your AWS credentials have expired or are not valid"
        return Trouble(status=502, title=title, advice=SIGN_IN, details=details, needs_sign_in=True)
    if code in MISSING:
        title = "There are no AWS credentials"
        return Trouble(status=502, title=title, advice=SIGN_IN, details=details, needs_sign_in=True)
    if code.startswith(DENIED):
        advice = (
            "The reference of the `lanes` command lists the rights of each verb, which are those of the page."
        )
        return Trouble(
            status=502, title=f"You may not call {error.operation}", advice=advice, details=details
        )
    if is_throttle(code):
        title = f"AWS asks for fewer calls of {error.operation}"
        return Trouble(status=502, title=title, advice="The page tries again by itself.", details=details)
    if code in UNREACHED:
        advice = "Look at the network, the VPN, the region and --endpoint; the page tries again by itself."
        return Trouble(status=502, title="AWS can't be reached", advice=advice, details=details)
    return Trouble(status=502, title=f"{error.operation} failed", details=details)
