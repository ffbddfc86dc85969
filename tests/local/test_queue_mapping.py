"""A deployed mapping and a polled message, as AWS's APIs return them."""

import base64

from local.model.queue_mapping import PolledMessage, QueueMapping

QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"
FIELDS = {
    "MessageId": "m1",
    "ReceiptHandle": "handle-m1",
    "Body": "{}",
    "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
    "Attributes": {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1763672400000",
        "SequenceNumber": "18850000000000000000",
        "MessageGroupId": "g",
        "SenderId": "AIDAEXAMPLE",
        "MessageDeduplicationId": "m1",
        "ApproximateFirstReceiveTimestamp": "1763672400001",
    },
}


def test_a_mapping_is_read_from_the_lambda_api():
    """Its queue, its function and its settings."""
    mapping = QueueMapping.from_api(
        {"UUID": "u", "EventSourceArn": QUEUE_ARN, "FunctionArn": "f", "BatchSize": 4, "State": "Enabled"}
    )

    assert (mapping.queue_name, mapping.function_arn, mapping.settings.batch_size) == ("jobs.fifo", "f", 4)


def test_a_record_has_the_shape_of_a_lambda_event():
    """Every key of the documented event is there, attributes unchanged."""
    assert PolledMessage(FIELDS).record(QUEUE_ARN) == {
        "messageId": "m1",
        "receiptHandle": "handle-m1",
        "body": "{}",
        "attributes": FIELDS["Attributes"],
        "messageAttributes": {},
        "md5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": "eu-central-1",
    }


def test_message_attributes_change_to_camel_case():
    """Text stays text and binary becomes base64."""
    received = FIELDS | {
        "MessageAttributes": {
            "trace": {"DataType": "String", "StringValue": "abc"},
            "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
        }
    }

    attributes = PolledMessage(received).record(QUEUE_ARN)["messageAttributes"]

    empty = {"stringListValues": [], "binaryListValues": []}
    assert attributes["trace"] == {**empty, "dataType": "String", "stringValue": "abc"}
    blob = base64.b64encode(b"\x00\x01").decode()
    assert attributes["blob"] == {**empty, "dataType": "Binary", "binaryValue": blob}
