"""Errors of AWS in words: what they mean and what to do."""

import pytest

from lanes.aws.errors import NOT_AWS
from lanes.aws.explanation import explained
from lanes.errors import AwsError


def error(code, message="said"):
    """An error of a call."""
    return AwsError(operation="GetParameter", code=code, message=message, retryable=False)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("NoCredentialsError", "AWS_ACCESS_KEY_ID"),
        ("PartialCredentialsError", "AWS_SECRET_ACCESS_KEY"),
        ("ExpiredToken", "aws sso login"),
        ("ProfileNotFound", "aws configure list-profiles"),
        ("EndpointConnectionError", "--endpoint"),
        ("AWS.SimpleQueueService.NonExistentQueue", "lanes check"),
        ("ResourceNotFoundException", "lanes check"),
        ("ThrottlingException", "again in a moment"),
    ],
)
def test_what_can_be_done_is_said(code, advice):
    """In words that can be typed."""
    assert advice in explained(error(code)).advice


def test_what_is_denied_is_named_as_policies_write_it():
    """The action and the resource, as far as AWS tells them."""
    said = (
        "User: arn:aws:iam::123456789012:user/night is not authorized to perform: ssm:GetParameter on resource: "
        "arn:aws:ssm:eu-central-1:123456789012:parameter/lanes/PriorityLanes because no identity-based policy allows "
        "the ssm:GetParameter action"
    )

    found = explained(error("AccessDeniedException", said))

    resource = "arn:aws:ssm:eu-central-1:123456789012:parameter/lanes/PriorityLanes"
    assert found.title == f"You may not call ssm:GetParameter on {resource}"
    assert "Ask for the right to ssm:GetParameter." in found.advice


def test_a_refusal_that_names_no_action_is_named_by_the_call():
    """SQS says only that access to the resource is denied."""
    found = explained(error("AccessDenied", "Access to the resource https://sqs.example/q is denied."))

    assert found.title == "You may not call GetParameter"


def test_another_server_in_place_of_aws_is_named_as_such():
    """The address is what to look at."""
    found = explained(error("501", NOT_AWS))

    assert found.title == "GetParameter was not answered by AWS"
    assert "--endpoint" in found.advice


def test_a_fault_within_aws_may_pass():
    """As retries tell."""
    found = explained(AwsError(operation="GetParameter", code="InternalServerError", retryable=True))

    assert (found.title, found.passes) == ("GetParameter failed", True)
    assert "again" in found.advice


def test_an_error_that_nobody_knows_keeps_its_own_words():
    """Nothing is guessed."""
    found = explained(error("Surprise"))

    assert (found.title, found.advice) == ("GetParameter failed", "")


@pytest.mark.parametrize(
    "code", ["SignatureDoesNotMatch", "InvalidSignatureException", "RequestTimeTooSkewed"]
)
def test_a_clock_that_is_minutes_off_is_named_as_such(code):
    """New credentials would not help."""
    said = (
        "Signature expired: 20270115T075000Z is now earlier than 20270115T075500Z (20270115T080000Z - 5 min.)"
    )

    found = explained(error(code, said))

    assert (found.title, found.needs_sign_in) == ("The clock of this machine is wrong", False)
    assert "the next line has both times" in found.advice
