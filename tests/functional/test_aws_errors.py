"""What is said of calls that AWS, or something in its place, refuses."""

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no such function", "no such function"),
        (
            "<!doctype html>\n<title>404 Not Found</title>",
            "the server is not AWS, or does not know the call",
        ),
        ("<html><body>Welcome</body></html>", "the server is not AWS, or does not know the call"),
    ],
)
def test_a_web_page_in_place_of_an_answer_is_told_in_words(message, said):
    """A proxy, another server, or AWS on this machine where it lacks a call."""
    response = {"Error": {"Code": "404", "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 404}}

    with pytest.raises(AwsError) as caught, aws_errors("GetAccountSettings"):
        raise ClientError(response, "GetAccountSettings")

    assert str(caught.value) == f"GetAccountSettings: 404: {said}"


def test_an_answer_that_no_parser_reads_is_told_in_words():
    """Where a parser stopped tells nobody anything; that it may pass is known all the same."""
    with pytest.raises(AwsError) as caught, aws_errors("SimulatePrincipalPolicy"):
        raise ResponseParserError("Unable to parse response (syntax error: line 1, column 0)")

    words = "the server is not AWS, or does not know the call"
    assert str(caught.value) == f"SimulatePrincipalPolicy: ResponseParserError: {words}"
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("reasons", "retryable"),
    [
        (["None", "TransactionConflict"], True),
        (["ThrottlingError", "TransactionConflict", "ProvisionedThroughputExceeded"], True),
        (["ConditionalCheckFailed", "None"], False),
        (["TransactionConflict", "ConditionalCheckFailed"], False),
        (["ValidationError"], False),
        ([], False),
    ],
)
def test_a_cancelled_transaction_has_its_reasons_and_is_retried_by_them(reasons, retryable):
    """One code stands for a conflict, which passes, and for a condition that does not hold."""
    response = {
        "Error": {"Code": "TransactionCanceledException", "Message": "Transaction cancelled"},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }

    with pytest.raises(AwsError) as caught, aws_errors("TransactWriteItems"):
        raise ClientError(response, "TransactWriteItems")

    assert caught.value.reasons == tuple(reasons)
    assert (caught.value.retryable, caught.value.answered) == (retryable, True)


def test_a_write_that_meets_a_transaction_is_retried():
    """It was refused before any work."""
    response = {
        "Error": {"Code": "TransactionConflictException"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }

    with pytest.raises(AwsError) as caught, aws_errors("UpdateItem"):
        raise ClientError(response, "UpdateItem")

    assert (caught.value.retryable, caught.value.answered) == (True, True)
