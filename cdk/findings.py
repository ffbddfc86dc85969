"""Findings: why a rule of cdk-nag does not apply to a construct, and references that our own rules compare."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
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


def acknowledge_wildcard(construct: IConstruct, arn: str, reason: str) -> None:
    """
    Acknowledge that a role may act on many resources.

    Args:
        construct: The role.
        arn: Its right's ARN, with a wildcard.
        reason: Why it needs all of them.

    """
    named = _flat(Stack.of(construct).resolve(arn))
    acknowledge(construct, f"AwsSolutions::AwsSolutions-IAM5[Resource::{named}]", reason)


def reference_from(node: IConstruct, owner: IConstruct, value: str) -> Any:
    """
    Give a value as the template of a node refers to it; None if it does not.

    Args:
        node: A construct of any stack of the app.
        owner: The construct with the value, such as an ARN.
        value: The value.

    """
    written = Stack.of(node).resolve(value)
    if isinstance(written, str) or Stack.of(node).node.path == Stack.of(owner).node.path:
        return written
    # A stack that refers to it imports it. Unused, it resolves to the owner's own reference, by a logical id that the
    # other template may have too.
    return None if written == Stack.of(owner).resolve(value) else written


def _flat(value: Any) -> str:
    """Write an ARN as cdk-nag names it: references as <LogicalId>."""
    if not isinstance(value, Mapping):
        return str(value)
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return "".join(_flat(part) for part in value["Fn::Join"][1])
