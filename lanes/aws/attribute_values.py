"""Convert between the typed values of DynamoDB and Python, with boto3."""

# A module of its own, since the linter of imports allows boto3 in this package only, and the outbox needs the types.
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

__all__ = ["TypeDeserializer", "TypeSerializer"]
