"""
Findings: why a rule of cdk-nag does not apply to a construct, and what our own rules compare and print.

Both are about references, which each template writes in its own way.
"""

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import (
    Acknowledgment,
    DefaultTokenResolver,
    IPostProcessor,
    IResolvable,
    IResolveContext,
    Reference,
    Stack,
    StringConcat,
    Tokenization,
    Validations,
)
from aws_cdk import aws_iam as iam
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
    stack, home = Stack.of(node), Stack.of(owner)
    # The CDK refuses to write such a reference, and none of ours works over the border.
    if stack.environment != home.environment:
        return None
    written = stack.resolve(value)
    if isinstance(written, str) or stack.node.path == home.node.path:
        return written
    # A stack that refers to it imports it. Unused, it resolves to the owner's own reference, by a logical id that the
    # other template may have too.
    return None if written == home.resolve(value) else written


class _Places(DefaultTokenResolver):
    """Writes a reference as the place of its resource in the app: no template but its own knows the logical id."""

    def resolve_token(self, t: IResolvable, context: IResolveContext, post_processor: IPostProcessor) -> Any:
        if isinstance(t, Reference):
            name = "" if t.display_name == "Ref" else f".{t.display_name}"
            return f"${{{t.target.node.path.removesuffix('/Resource')}{name}}}"
        value = super().resolve_token(t, context, post_processor)
        if not isinstance(value, Mapping):
            return value
        return f"${{{value['Ref']}}}" if "Ref" in value else json.dumps(value)


def statements_to_paste(scope: IConstruct, *statements: iam.PolicyStatement) -> list[Any]:
    """
    Give statements for another stack or app, or for no app at all.

    Args:
        scope: The construct that is granted something.
        *statements: In them ``${Orders/Lanes/HIGH/Queue.Arn}`` stands for a value of a resource of this app, by its
            path, and ``${AWS::Region}`` for the stack's.

    """
    return [
        Tokenization.resolve(
            one.to_statement_json(), scope=scope, resolver=_Places(StringConcat()), preparing=False
        )
        for one in statements
    ]


def _flat(value: Any) -> str:
    """Write an ARN as cdk-nag names it: references as <LogicalId>."""
    if not isinstance(value, Mapping):
        return str(value)
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return "".join(_flat(part) for part in value["Fn::Join"][1])
