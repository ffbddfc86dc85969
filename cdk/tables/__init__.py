"""The DynamoDB tables of the consumer and of the outbox."""
