"""Clients of AWS, and the errors that their calls become."""

import gzip
import json
import os
from pathlib import Path

import boto3
import botocore
import botocore.session
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own name
    HTTPClientError,
)
from botocore.parsers import ResponseParserError
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from lanes import Producer
from lanes.aws.clients import Clients
from lanes.aws.errors import aws_errors
from lanes.aws.explanation import explained
from lanes.cli.target import Target
from lanes.errors import AwsError, ConfigurationError
from lanes.fault_codes import Cause, cause_of, is_throttle, may_pass


def test_a_missing_region_says_what_to_do(monkeypatch):
    """A producer without a region gets one short error in place of botocore's, also if it is meant for this machine."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    with pytest.raises(ConfigurationError, match=r"no AWS region is known.*`lanes local run`") as found:
        Producer.from_stack("PriorityLanes")
    assert found.value.__suppress_context__


def test_the_variable_that_other_sdks_read_names_the_region_too(monkeypatch):
    """boto3 itself knows AWS_DEFAULT_REGION only, and the advice names both."""
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    assert Clients().sqs().meta.region_name == "eu-west-3"


def test_a_region_that_was_given_goes_before_that_of_the_environment(monkeypatch):
    """As does that of a session."""
    monkeypatch.setenv("AWS_REGION", "eu-west-3")

    assert Clients(region="eu-west-1").sqs().meta.region_name == "eu-west-1"
    session = boto3.Session(region_name="eu-west-2")
    assert Clients(session=session).sqs().meta.region_name == "eu-west-2"


def test_an_endpoint_that_is_no_address_is_told_in_words():
    """The SDK raises a bare ValueError."""
    with pytest.raises(ConfigurationError, match=r"Invalid endpoint: nowhere; an address such as http://"):
        Clients(region="eu-west-1", endpoint_url="nowhere").sqs()


def test_a_missing_file_of_certificates_is_named(monkeypatch, tmp_path):
    """Before any call; an address without TLS needs none."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))

    with pytest.raises(ConfigurationError, match=r"certificates '.*none\.pem' is missing; AWS_CA_BUNDLE"):
        Clients(region="eu-central-1").sqs()
    assert Clients(region="eu-central-1", endpoint_url="http://127.0.0.1:1").sqs()


ROLE = "role_arn = arn:aws:iam::123456789012:role/x\n"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """Read the lanes of a stack with a profile and variables; give what is said."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    def read(profile="", endpoint=NOWHERE, **variables):
        (tmp_path / "config").write_text(f"[default]\n{profile.format(folder=tmp_path)}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        try:
            Target(endpoint=endpoint).deployment()
        except AwsError as error:
            found = explained(error)
            return f"{found.title}. {found.advice} {error}"
        except ConfigurationError as error:
            return str(error)
        raise AssertionError("nothing was refused")

    return read


PROCESS = "credential_process must be a command that prints JSON with Version 1"
TOKEN = "must be a readable file with the token of your identity provider"


@pytest.mark.parametrize(
    ("profile", "step"),
    [
        ("credential_process = /nowhere/command", PROCESS),
        ("credential_process = /tmp", PROCESS),
        ("credential_process =", PROCESS),
        ('credential_process = echo "', PROCESS),
        ("credential_process = echo hello", PROCESS),
        ("credential_process = echo null", PROCESS),
        ("credential_process = echo []", PROCESS),
        ("credential_process = /bin/false", "could not be retrieved. The next line names their source"),
        (ROLE + "web_identity_token_file = /nowhere/token", TOKEN),
        (ROLE + "web_identity_token_file = {folder}", TOKEN),
        (ROLE + "web_identity_token_file = {folder}/empty", TOKEN),
        (ROLE + "web_identity_token_file = {folder}/binary", TOKEN),
        (ROLE + "source_profile = nobody", "The AWS configuration can't be used. Correct the setting"),
        (ROLE + "credential_source = Nowhere", "The AWS configuration can't be used. Correct the setting"),
        (ROLE, "AWS credentials are incomplete"),
        (
            "sso_session = nobody\nsso_account_id = 1\nsso_role_name = r",
            "The AWS configuration can't be used",
        ),
        ("[default", "The AWS configuration can't be used. Correct the setting"),
        ("metadata_service_timeout = soon", "(soon) must be a whole number of seconds"),
        (
            "account_id_endpoint_mode = x\naws_access_key_id = a\naws_secret_access_key = b",
            "can't be used. Correct",
        ),
    ],
)
def test_a_broken_profile_is_named_with_the_next_step(problem, profile, step, monkeypatch):
    """Whatever botocore raises for it: it has no error of its own for half of them."""
    if "metadata" in profile:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")

    assert step in problem(profile)


@pytest.mark.parametrize(
    ("variables", "step"),
    [
        ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere"}, TOKEN),
        (
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/x"},
            "(http://example.com/x) must be an address on this machine",
        ),
        (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/x",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/nowhere",
            },
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE (/nowhere) must be a readable file",
        ),
        (
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CREDENTIAL_EXPIRATION": "soon"},
            "AWS_CREDENTIAL_EXPIRATION (soon) must be a time in the future",
        ),
        (
            {
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_CREDENTIAL_EXPIRATION": "2001-01-01T00:00:00Z",
            },
            "AWS_CREDENTIAL_EXPIRATION (2001-01-01T00:00:00Z) must be a time in the future",
        ),
        ({"AWS_ACCESS_KEY_ID": "a"}, "AWS credentials are incomplete"),
        ({"AWS_PROFILE": "nobody"}, "There is no such profile"),
    ],
    ids=["token", "host", "container-token", "expiration", "expired", "partial", "profile"],
)
def test_a_broken_variable_is_named_with_the_next_step(problem, variables, step):
    """The value too, where it can't be a key."""
    assert step in problem(**variables)


def test_a_wrong_address_is_not_taken_for_credentials(problem):
    """Both are a ValueError of botocore."""
    said = problem("aws_access_key_id = a\naws_secret_access_key = b", endpoint="nowhere")

    assert "Invalid endpoint: nowhere; an address such as http://127.0.0.1:4566 is needed" in said
    assert "credentials" not in said


def test_no_key_is_shown(problem):
    """A command may contain one, and so may the token of a container."""
    said = problem("credential_process = echo topsecret")
    said += problem(
        AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:9/x",
        AWS_CONTAINER_AUTHORIZATION_TOKEN="top\nsecret",
    )

    assert "secret" not in said


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
