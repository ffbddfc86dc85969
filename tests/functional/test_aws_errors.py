"""Errors of AWS: what is said of them, and the table of their codes beside botocore's own lists."""

import gzip
import json
from pathlib import Path

import botocore
import botocore.session
import pytest
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's own name
from botocore.parsers import ResponseParserError
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError
from lanes.fault_codes import Cause, cause_of, is_throttle, may_pass


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


SERVICES = ("sqs", "dynamodb", "lambda", "ssm", "sts", "kms", "cloudwatch", "logs", "s3", "emr-serverless")


def refusal(code, status):
    """Return the error of a call that AWS has answered so."""
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(AwsError) as caught, aws_errors("SendMessageBatch"):
        raise ClientError(response, "SendMessageBatch")
    return caught.value


def botocores_policies():
    """Return code and status of each rule in the list of botocore's legacy retry mode."""
    path = Path(botocore.__file__).parent / "data" / "_retry.json"
    text = path.read_text() if path.exists() else gzip.decompress(path.with_suffix(".json.gz").read_bytes())
    found = []

    def collect(node):
        if isinstance(node, dict):
            if "service_error_code" in node or "http_status_code" in node:
                found.append((node.get("service_error_code", ""), node.get("http_status_code", 400)))
            for child in node.values():
                collect(child)

    known = json.loads(text)
    collect(known["definitions"])
    for service in ("__default__", *SERVICES):
        collect(known["retry"].get(service, {}))
    return found


def test_every_code_that_botocore_repeats_passes():
    """Its standard mode, as a code alone and with a status that says less."""
    codes = {
        *TransientRetryableChecker._TRANSIENT_ERROR_CODES,
        *ThrottledRetryableChecker._THROTTLED_ERROR_CODES,
    }

    assert len(codes) > 10
    assert [code for code in codes if not cause_of(code).passes] == []
    assert [code for code in codes if not refusal(code, 400).retryable] == []
    assert [one for one in ThrottledRetryableChecker._THROTTLED_ERROR_CODES if not is_throttle(one)] == []


def test_every_status_that_botocore_repeats_passes():
    """Also with a code that nobody knows; 408 and 429 are of the SDKs' reference guide."""
    statuses = {*TransientRetryableChecker._TRANSIENT_STATUS_CODES, 408, 429}

    assert [status for status in statuses if not refusal("Unheard", status).retryable] == []
    assert [status for status in (400, 403, 404, 409) if refusal("Unheard", status).retryable] == []


def test_every_rule_of_the_legacy_mode_passes():
    """Codes and statuses of all services that are called."""
    policies = botocores_policies()

    assert len(policies) > 10
    assert [one for one in policies if not refusal(*one).retryable] == []


@pytest.mark.parametrize("service", SERVICES)
def test_every_error_that_a_model_calls_retryable_or_a_fault_passes(service):
    """By the service models of botocore."""
    for shape in botocore.session.get_session().get_service_model(service).error_shapes:
        status = shape.metadata.get("error", {}).get("httpStatusCode", 400)
        if "retryable" in shape.metadata or status >= 500:
            assert refusal(shape.error_code, status).retryable, shape.error_code


def test_every_exception_without_an_answer_passes():
    """By its name alone, which is all that a message's report keeps."""
    names = [error.__name__ for base in (ConnectionError, HTTPClientError) for error in all_kinds(base)]

    assert len(names) > 5
    assert [name for name in names if not cause_of(name).passes] == []


def all_kinds(base):
    """Return a class and all that derive from it in botocore."""
    deeper = [error for one in base.__subclasses__() for error in all_kinds(one)]
    return [base, *(error for error in deeper if error.__module__ == "botocore.exceptions")]


@pytest.mark.parametrize(
    ("code", "status", "answered"),
    [
        ("ThrottlingException", 400, True),
        ("AWS.SimpleQueueService.RequestThrottled", 403, True),
        ("TooMany", 429, True),
        ("RequestTimeout", 400, False),
        ("Anything", 408, False),
        ("InternalError", 400, False),
        ("Anything", 503, False),
        ("AccessDenied", 403, True),
    ],
)
def test_only_a_throttle_is_known_to_have_done_nothing(code, status, answered):
    """A timeout or a fault of AWS may come after the work, so the message may be in its queue."""
    assert refusal(code, status).answered is answered


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("KmsThrottled", Cause.THROTTLED),
        ("KmsAccessDenied", Cause.PERMISSION),
        ("AccessDeniedException", Cause.PERMISSION),
        ("ExpiredTokenException", Cause.CREDENTIALS),
        ("NoCredentialsError", Cause.CREDENTIALS),
        ("AWS.SimpleQueueService.NonExistentQueue", Cause.MISSING),
        ("InvalidMessageContents", Cause.OTHER),
    ],
)
def test_other_codes_have_a_cause(code, cause):
    """Which names the next step."""
    assert cause_of(code) is cause


def test_an_entry_that_sqs_refused_may_pass_by_its_code_too():
    """SQS says that the sender is at fault for a throttle and a timeout as well."""
    assert may_pass("Unheard", sender_fault=False)
    assert may_pass("RequestTimeout", sender_fault=True)
    assert may_pass("RequestThrottled", sender_fault=True)
    assert not may_pass("InvalidMessageContents", sender_fault=True)
