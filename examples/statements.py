"""A run of statements that is followed to its end, for docs/how-to/follow-a-run.md."""

from collections.abc import Iterable, Sequence

from lanes import Consumer, Message, Producer

consumer = Consumer()
mails: list[str] = []


def send_statements(producer: Producer, month: str, customers: Sequence[str]) -> None:
    """Send a statement to each customer, and follow them all."""
    name = f"statements-{month}"
    with producer.run(name, expected=len(customers), on_complete="statements.sent") as run:
        run.send_many(statements(month, customers))


def statements(month: str, customers: Iterable[str]) -> Iterable[Message]:
    """Return a message for each customer, with an id that is the same whenever the block runs."""
    for customer in customers:
        yield Message(kind="statement", id=f"{month}-{customer}", data={"customer": customer})


@consumer.handler("statement")
def write_statement(message: Message) -> None:
    """Write one statement."""
    if not message.data["customer"]:
        raise ValueError("a statement needs a customer")


@consumer.handler("statements.sent")
def report(message: Message) -> None:
    """Report the end of the run."""
    mails.append("{run}: {done} of {total} sent, {dead_lettered} failed".format(**message.data))
