"""Clients of boto3 as this library makes them; broken settings are told in words with the next step."""

import os

import boto3
import pytest

from lanes import Producer
from lanes.aws.clients import Clients
from lanes.aws.explanation import explained
from lanes.cli.target import Target
from lanes.errors import AwsError, ConfigurationError


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
