"""What the command says where AWS can't be asked."""

import pytest

from tests.support.command import NOWHERE, Typed


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Run the command with the variables of an operator, without some of them; give status and words."""
    typed = Typed()
    monkeypatch.setitem(typed.variables, "HOME", str(tmp_path))

    def run(*arguments, without=()):
        done = typed(*arguments, without=without)
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
    assert "GetParameter: NoCredentialsError: Unable to locate credentials; sign in" in talk
    assert "run the command with `lanes local run`" in talk


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
        (("--region", "eu central"), "'eu central' is not an AWS region. Use one such as eu-central-1"),
        (("--profile", "nobody"), "There is no such profile"),
    ],
)
def test_options_that_lead_nowhere_are_told_in_words(told, arguments, words):
    """No traceback of the SDK."""
    status, talk = told(*arguments, "status")

    assert status == 1
    assert words in talk
