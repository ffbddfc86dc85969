"""What Lambda calls in the function of a consumer: this library, which imports your module."""

HANDLER = "handler.lambda_handler"
"""Your module and its function, by default."""
ENTRY_POINT = "lanes.aws.entry_point.lambda_handler"
"""The function that imports them, and returns messages soon while that fails."""
RELAY = "lanes.outbox.dynamodb.relay_function.lambda_handler"
"""The relay of the outbox, a module of this library."""
