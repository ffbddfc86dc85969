"""A batch handler: up to ten invoices in one request, to a partner that takes several at once."""

import http.client
import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from http import HTTPStatus

from lanes import Consumer, DeadLetter, Message, Retry

PARTNER = "partner.example"

consumer = Consumer()


@dataclass(frozen=True)
class Invoice:
    """The data of an invoice."""

    customer: str
    amount: float


@consumer.batch_handler("invoice.issued", max_size=10)
def post_invoices(messages: list[Message[Invoice]]) -> dict[str, Exception]:
    """Post the invoices in one request; return the failed ones by id, each with its exception."""
    statuses = post([{"id": message.id, **asdict(message.data)} for message in messages])
    failed: dict[str, Exception] = {}
    for message in messages:
        status = statuses[message.id]
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            failed[message.id] = Retry(after=timedelta(minutes=1), reason="the partner is busy")
        elif status >= HTTPStatus.BAD_REQUEST:
            failed[message.id] = DeadLetter(f"the partner refused it with {status}")
    return failed


def post(invoices: list[dict[str, object]]) -> dict[str, int]:
    """Return the partner's status of each invoice by its id; the partner ignores one that it has."""
    connection = http.client.HTTPSConnection(PARTNER, timeout=10)
    connection.request("POST", "/invoices", body=json.dumps(invoices))
    return dict(json.load(connection.getresponse()))


lambda_handler = consumer.lambda_handler
