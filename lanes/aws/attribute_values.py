"""Convert between the typed values of DynamoDB and Python, with boto3."""

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

__all__ = ["TypeDeserializer", "TypeSerializer"]
