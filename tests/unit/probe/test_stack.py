"""The stack of a probe through a `cdk` command that a test writes."""

import json
import os
import shlex

import pytest

from lanes.probe.experiments import QUICK
from lanes.probe.stack import ProbeStack, StackError

NOT_BOOTSTRAPPED = (
    "LanesProbe: SSM parameter /cdk-bootstrap/own12345/version not found in aws://123456789012/eu-central-1. Has the "
    "environment been bootstrapped? Please run 'cdk bootstrap'"
)
OUTPUTS = {"LanesProbe": {"Queues": json.dumps({"first": "url"}), "Table": "events"}}
WRITE_OUTPUTS = f"""
while [ "$1" != --outputs-file ]; do shift; done
echo {shlex.quote(json.dumps(OUTPUTS))} > "$2"
"""


@pytest.fixture
def cdk(tmp_path, monkeypatch):
    """Write the command's script."""

    def write(script):
        command = tmp_path / "cdk"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return write


@pytest.fixture
def said():
    """The reported lines."""
    return []


@pytest.fixture
def stack(said):
    """A stack in no account."""
    return ProbeStack(QUICK, environment=os.environ, report=said.append)


def test_a_deployment_gives_the_queues_and_the_table(cdk, stack):
    """From the outputs of the stack."""
    cdk(WRITE_OUTPUTS)

    assert stack.deploy() == ({"first": "url"}, "events")


def test_an_account_without_bootstrap_is_named_with_the_command_to_run(cdk, stack):
    """In place of fifteen lines of the CDK."""
    cdk(f"echo {shlex.quote(NOT_BOOTSTRAPPED)}; exit 1")

    with pytest.raises(StackError) as error:
        stack.deploy()
    assert str(error.value) == (
        "aws://123456789012/eu-central-1 is not bootstrapped, so the CDK cannot deploy there: run "
        "`cdk bootstrap aws://123456789012/eu-central-1` once, then the probe again"
    )


def test_a_failed_deployment_shows_the_last_lines(cdk, stack):
    """They have the reason of CloudFormation."""
    cdk(
        "n=0; while [ $n -lt 40 ]; do n=$((n + 1)); echo $n; done; echo 'LanesProbe failed: quota exceeded'; exit 3"
    )

    with pytest.raises(StackError) as error:
        stack.deploy()
    lines = str(error.value).splitlines()
    assert (lines[0], lines[-1]) == (
        "cdk deploy failed with status 3:",
        "  LanesProbe failed: quota exceeded",
    )
    assert len(lines) == 16


def test_a_stack_that_cannot_be_destroyed_is_named(cdk, stack):
    """It costs money until somebody deletes it."""
    cdk("echo 'no route to host'; exit 1")

    with pytest.raises(StackError, match=r"(?s)no route to host.*LanesProbe may be left.*delete it"):
        stack.destroy()


def test_an_interrupt_waits_for_the_end_of_the_deployment(cdk, stack, said, tmp_path):
    """A half-made stack can't be destroyed; the user reads why it takes longer."""
    cdk(f"kill -INT $PPID\n{WRITE_OUTPUTS}touch {tmp_path}/ended")

    with pytest.raises(KeyboardInterrupt):
        stack.deploy()
    assert (tmp_path / "ended").exists()
    assert said == ["interrupted: cdk deploy has to come to its end first; this takes a minute or two"]


def test_without_the_command_nothing_is_deployed(stack, tmp_path, monkeypatch):
    """The message says how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(StackError, match="npm install -g aws-cdk"):
        stack.deploy()
