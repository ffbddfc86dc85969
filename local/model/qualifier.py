"""The qualifier of a function's ARN: a version or an alias."""

# AWS: arn:partition:lambda:region:account:function:name, and :qualifier (Lambda API reference, FunctionArn).
_PARTS = 7


def without_qualifier(arn: str) -> str:
    """Return the ARN of the function itself."""
    return ":".join(arn.split(":")[:_PARTS])
