"""Find event source mappings that would bring a function events of a source that it can't handle."""

import json
from collections.abc import Collection

import jsii
from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import IValidation


@jsii.implements(IValidation)
class ForeignMappings:
    """
    The rule that a function has no other event source mappings than those of its construct.

    Args:
        function: The function.
        live: Its alias.
        own: The mappings of its construct.
        advice: What to do with the source of another one.

    """

    def __init__(
        self,
        function: lambda_.Function,
        live: lambda_.Alias,
        *,
        own: Collection[lambda_.EventSourceMapping],
        advice: str,
    ) -> None:
        self._function = function
        self._live = live
        self._own = {mapping.node.path for mapping in own}
        self._advice = advice

    def validate(self) -> list[str]:
        """Return a text for each mapping of another construct."""
        return [
            f"{node.node.path} maps {_source_of(node)} to the function {self._function.node.path}. {self._advice}"
            for node in self._function.node.root.node.find_all()
            if isinstance(node, lambda_.CfnEventSourceMapping)
            and not any(node.node.path.startswith(f"{path}/") for path in self._own)
            and self._is_target(node)
        ]

    def _is_target(self, node: lambda_.CfnEventSourceMapping) -> bool:
        resolve = Stack.of(node).resolve
        names = [
            name
            for one in (self._function, self._live, self._function.current_version)
            for name in (one.function_name, one.function_arn)
        ]
        return resolve(node.function_name) in [resolve(name) for name in names]


def _source_of(node: lambda_.CfnEventSourceMapping) -> str:
    """Name the source of a mapping: by its ARN if that is known, else by its reference in the template."""
    source = Stack.of(node).resolve(node.event_source_arn)
    return source if isinstance(source, str) else json.dumps(source)
