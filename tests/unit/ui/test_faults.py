"""Errors in words for somebody who is woken at night."""

import pytest

from lanes.errors import AwsError, ConfigurationError, LanesError
from lanes.ui.session import fault_of


def aws(code, **more):
    """An error of a call."""
    return AwsError(operation="GetQueueAttributes", code=code, message="said", retryable=False, **more)


@pytest.mark.parametrize(
    ("code", "title", "signs_in"),
    [
        ("UnauthorizedSSOTokenError", "Your AWS credentials have expired or are not valid", True),
        ("NoCredentialsError", "There are no AWS credentials", True),
        ("AccessDenied", "You may not call GetQueueAttributes", False),
    ],
)
def test_errors_of_aws_are_told_by_what_they_mean(code, title, signs_in):
    """As the command tells them; what AWS said is kept."""
    fault = fault_of(aws(code))

    assert (fault.title, fault.needs_sign_in, fault.status) == (title, signs_in, 502)
    assert fault.details == f"GetQueueAttributes: {code}: said"


def test_expired_credentials_say_what_to_do():
    """In words that can be typed."""
    assert "aws sso login" in fault_of(aws("ExpiredToken")).advice


def test_other_errors_explain_themselves():
    """As the command prints them, without its lines."""
    wrong = fault_of(ConfigurationError(["one", "two"], source="x"))

    assert (wrong.status, wrong.title) == (400, "one; two")
    assert fault_of(LanesError("somebody else has changed it")).status == 409
