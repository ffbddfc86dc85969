"""Acknowledgments of findings: why a rule of cdk-nag does not apply to one construct."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    """
    Acknowledge a finding on the one construct that it is about.

    Args:
        construct: The construct.
        finding: The rule with its pack, for example ``Serverless::Serverless-LambdaDLQ``.
        reason: Why the rule does not apply; reviewers read it.

    """
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
