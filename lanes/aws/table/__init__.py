"""The items of the consumer's DynamoDB table."""
