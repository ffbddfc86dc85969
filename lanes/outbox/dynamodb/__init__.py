"""The outbox in a DynamoDB table."""
