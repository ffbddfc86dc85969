"""The recipes where they are hard: handled twice, a failure among many, a partner that takes its time."""

from collections import Counter
from datetime import timedelta

import pytest

from examples import recipes
from lanes import Consumer, LanesConfig
from lanes.testing import InMemoryLanes

ORDER = {"order": 7}


class Partner:
    """A bank that loses its answer at first, and a scanner that is done after a while."""

    def __init__(self, *, answers=()):
        self.captured, self.asked = {}, 0
        self._answers = list(answers)
        self._fails = True

    def capture(self, cents, *, idempotency_key):
        self.captured[idempotency_key] = cents
        if self._fails:
            self._fails = False
            raise TimeoutError("no answer")
        return "r-1"

    def state(self, _file):
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture(params=["mappings", "pull"])
def lanes(request):
    """Lanes of each engine, with a consumer that has no handler yet."""
    consumer = Consumer()
    found = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {"engine": request.param}}))
    found.consumer = consumer
    return found


def test_a_payment_is_captured_once(lanes):
    """The answer of the first call is lost, and the second has the same key."""
    bank = Partner()
    recipes.add_capture(lanes.consumer, bank)
    lanes.producer.send("payment.captured", {"cents": 995}, id="order-7")
    lanes.run_until_idle()

    assert bank.captured == {"order-7": 995}
    lanes.assert_handled("payment.captured")


def test_b_is_one_message_although_a_is_handled_twice(lanes):
    """Within five minutes SQS drops the second one by its id."""
    again = ["again"]
    recipes.add_steps(lanes.consumer, lanes.producer)
    handled = Counter()

    @lanes.consumer.handler("invoice.wanted")
    def invoice(message):
        handled[message.id] += 1
        if again:
            lanes.producer.send(
                "order.placed", ORDER, id="order-7", group="c-1", deduplication_id=again.pop()
            )

    lanes.producer.send("order.placed", ORDER, id="order-7", group="c-1")
    lanes.run_until_idle()

    assert not again
    assert handled == {"order-7/invoice": 1}


def test_one_message_follows_the_last_of_many(lanes):
    """With a file that fails among them, and one that is named twice."""
    told = []

    @lanes.consumer.handler("file.imported")
    def import_file(message):
        assert message.data["file"] != "broken"

    @lanes.consumer.handler("batch.imported")
    def imported(message):
        told.append((message.data["total"], message.data["done"], message.data["dead_lettered"]))

    recipes.import_files(lanes.producer, "monday", ["a", "b", "broken", "a"])
    lanes.run_until_idle()

    assert told == [(3, 2, 1)]


@pytest.mark.parametrize(
    ("answers", "dead"),
    [(["running", "running", "clean"], 0), (["running", "infected"], 1), (["running"], 0)],
)
def test_a_partner_is_asked_until_it_is_ready_or_the_day_is_over(lanes, answers, dead):
    """No attempt counts, and the third file ends after a day, without a dead letter."""
    scanner = Partner(answers=answers)
    recipes.add_scan(lanes.consumer, scanner)
    recipes.scan(lanes.producer, "a.pdf")
    lanes.run_for(timedelta(days=2))

    lanes.assert_nothing_waiting()
    assert len(lanes.journal.dead_lettered) == dead
    assert all(one.attempt == 1 for one in lanes.journal.failed)
    assert scanner.asked == len(answers) if len(answers) > 1 else 500 < scanner.asked < 600
