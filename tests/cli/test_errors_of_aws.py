"""What the command says where AWS can't be asked."""

import os
import subprocess
import sys

import pytest

from local.account import isolated_variables

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def told(tmp_path):
    """Run the command with the variables of an operator, some of them changed; give status and words."""

    def run(*arguments, without=(), **changed):
        variables = {
            **os.environ,
            **isolated_variables(NOWHERE, "operator"),
            **changed,
            "HOME": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-m", "lanes", *arguments],
            env={name: value for name, value in variables.items() if name not in without},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done.returncode, done.stderr

    return run


def test_missing_credentials_are_told_with_what_was_tried(told):
    """And with what to do."""
    status, talk = told("status", without=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))

    assert (status, talk.splitlines()[0]) == (1, "error: There are no AWS credentials")
    assert "AWS_ACCESS_KEY_ID" in talk
    assert "--profile" in talk
    assert "GetParameter: NoCredentialsError: Unable to locate credentials" in talk


def test_a_missing_region_is_told_with_what_was_tried(told):
    """And with what to do."""
    status, talk = told("status", without=("AWS_REGION", "AWS_DEFAULT_REGION"))

    assert status == 1
    assert "no AWS region is known" in talk
    assert "AWS_DEFAULT_REGION" in talk
    assert "--region" in talk


def test_an_endpoint_that_is_down_is_told_with_its_address(told):
    """And with what to look at."""
    status, talk = told("status")

    assert (status, talk.splitlines()[0]) == (1, "error: AWS can't be reached")
    assert NOWHERE in talk
    assert "--endpoint" in talk


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--endpoint", "nowhere"), "an address such as http://"),
        (("--region", "eu central"), "'eu central' is no AWS region; one such as eu-central-1 is needed"),
        (("--profile", "nobody"), "There is no such profile"),
    ],
)
def test_options_that_lead_nowhere_are_told_in_words(told, arguments, words):
    """No traceback of the SDK."""
    status, talk = told(*arguments, "status")

    assert status == 1
    assert words in talk
