"""Move the messages of a FIFO queue that you have to a lane, each group in its order."""

from typing import Any

from lanes import JsonText, Producer


def move(sqs: Any, queue_url: str, producer: Producer) -> int:
    """Send each message as an order, then delete it; return their number."""
    moved = 0
    while messages := sqs.receive_message(
        QueueUrl=queue_url,
        MaxNumberOfMessages=10,
        WaitTimeSeconds=1,
        MessageSystemAttributeNames=["MessageGroupId"],
    ).get("Messages"):
        for message in messages:
            producer.send(
                "order.placed",
                JsonText(message["Body"]),
                id=message["MessageId"],
                group=message["Attributes"]["MessageGroupId"],
                priority=-100,
            )
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
            moved += 1
    return moved
