"""The ledger in memory and the one in DynamoDB keep the same promises; what only DynamoDB has is at the end."""

import dataclasses
from io import BytesIO

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ReadTimeoutError

from lanes.aws.clients import Clients, consumer_config
from lanes.aws.ledger import KEPT_SECONDS, DynamoDBLedger
from lanes.consumer.ledger import Effect, Ending, Entry, Park
from lanes.errors import AwsError
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryLedger
from tests.support.operating import TABLE

NOW = 1_800_000_000.0


@pytest.fixture
def stored(dynamodb):
    """Return the ledger in DynamoDB."""
    return DynamoDBLedger(table=TABLE, client=dynamodb, clock=lambda: NOW)


@pytest.fixture
def table_client(dynamodb):
    """Return a client of the table with the function's retries: two tries."""
    return Clients(region=dynamodb.meta.region_name, config=consumer_config()).dynamodb()


@pytest.fixture(params=["memory", "dynamodb"])
def ledger(request):
    """Each ledger in turn."""
    return MemoryLedger(Calls()) if request.param == "memory" else request.getfixturevalue("stored")


def entry_of(message_id="m", lane="MAIN", **fields):
    return Entry(lane=lane, message_id=message_id, **fields)


def parked_until(until, message_id="m", lane="MAIN", *, receipt="receipt", batch="batch", park=Park.YIELD):
    return entry_of(
        message_id,
        lane,
        ending=Ending.YIELDED,
        park=park,
        parked_until=until,
        batch=batch,
        receipt_handle=receipt,
    )


def ids(entries):
    return [entry.message_id for entry in entries]


EVERYTHING = entry_of(
    attempts=3,
    yields=40,
    returns=5,
    ending=Ending.FAILED,
    noted_receive=49,
    suspect=True,
    last_error="ValueError: größer als \u2713 \N{PILE OF POO} \x00",
    given_up="not wanted",
    noted_at=NOW + 0.125,
    park=Park.REST,
    parked_until=NOW + 30.5,
    batch="request-1",
    receipt_handle="",
)


@pytest.mark.parametrize(
    "entry",
    [
        entry_of(),
        EVERYTHING,
        dataclasses.replace(EVERYTHING, park=Park.YIELD, receipt_handle="AQEB" * 100),
        entry_of(lane="A-lane_7", message_id="x" * 100),
    ],
)
def test_an_entry_comes_back_as_it_was_noted(ledger, entry):
    """All of its fields."""
    ledger.note([entry])

    assert ledger.read(entry.lane, [entry.message_id]) == {entry.message_id: entry}


def test_only_entries_that_exist_are_read(ledger):
    """By lane and id together."""
    ledger.note([entry_of("a", attempts=1), entry_of("b", "HIGH", attempts=2)])

    assert set(ledger.read("MAIN", ["a", "b", "c"])) == {"a"}
    assert ledger.read("HIGH", ["b"])["b"].attempts == 2


@pytest.mark.parametrize("count", [1, 2, 25, 26, 60, 130])
def test_many_entries_are_noted_and_read(ledger, count):
    """Beyond what one call takes."""
    entries = [entry_of(f"m{number}", attempts=number) for number in range(count)]

    ledger.note(entries)

    assert ledger.read("MAIN", ids(entries)) == {entry.message_id: entry for entry in entries}


def test_a_later_note_replaces_an_earlier_one(ledger):
    """Also what is no longer there: the parking, the error."""
    ledger.note([EVERYTHING])

    later = entry_of(attempts=4, noted_receive=EVERYTHING.noted_receive, first_received_at=NOW)
    ledger.note([later])

    assert ledger.read("MAIN", ["m"])["m"] == later
    assert list(ledger.parked("MAIN", after=NOW)) == []


@pytest.mark.parametrize(("noted", "kept"), [(None, 2), (3, 2), (4, 2), (5, 1)])
def test_an_amendment_leaves_the_entry_of_a_later_receive_alone(ledger, noted, kept):
    """Another slot has received the message and counted an attempt."""
    if noted is not None:
        ledger.note([entry_of(noted_receive=noted, attempts=1)])

    ledger.amend([entry_of(noted_receive=4, attempts=2)])

    assert ledger.read("MAIN", ["m"])["m"].attempts == kept


@pytest.mark.parametrize(
    ("ending", "receive", "first", "kept"),
    [
        (Ending.STARTED, 3, 0.0, "stored"),  # of the receive before
        (Ending.YIELDED, 3, 0.0, "stored"),
        (Ending.STARTED, 4, 0.0, "stored"),  # the attempt has ended
        (Ending.FAILED, 4, 0.0, "written"),
        (Ending.STARTED, 5, 0.0, "written"),
        (Ending.STARTED, 1, 60.0, "written"),  # redriven under the same id
        (Ending.STARTED, 1, 0.5, "stored"),  # SQS's stamps are approximate
    ],
)
@pytest.mark.parametrize("write", ["note", "amend"])
def test_a_write_that_lands_late_replaces_no_later_one(ledger, write, *, ending, receive, first, kept):
    """It may erase an attempt, or count one for a yield."""
    ledger.note(
        [entry_of(ending=Ending.YIELDED, noted_receive=4, first_received_at=NOW, last_error="stored")]
    )

    late = entry_of(ending=ending, noted_receive=receive, first_received_at=NOW + first, last_error="written")
    getattr(ledger, write)([late])

    assert ledger.read("MAIN", ["m"])["m"].last_error == kept


@pytest.mark.parametrize("ending", [Ending.STARTED, Ending.YIELDED])
def test_a_write_with_a_lost_answer_is_repeated(ledger, ending):
    """The repetition changes nothing, and is no error."""
    entry = entry_of(ending=ending, noted_receive=4, first_received_at=NOW)
    ledger.note([entry])
    ledger.note([entry])

    assert ledger.read("MAIN", ["m"])["m"] == entry


def test_parked_records_are_found_by_lane_and_time(ledger):
    """The earliest to return first; what is over is not among them."""
    ledger.note(
        [
            parked_until(NOW + 20, "late"),
            parked_until(NOW + 5, "soon"),
            parked_until(NOW - 1, "over"),
            parked_until(NOW + 7, "rest", park=Park.REST),
            parked_until(NOW + 6, "elsewhere", "MEDIUM"),
            entry_of("free"),
        ]
    )

    assert ids(ledger.parked("MAIN", after=NOW)) == ["soon", "rest", "late"]
    assert ids(ledger.parked("MAIN", after=NOW, limit=2)) == ["soon", "rest"]
    assert ids(ledger.parked("MAIN", after=NOW + 6)) == ["rest", "late"]


def test_records_parked_together_keep_their_order(ledger):
    """The waker begins with the last of a group, whatever was in the table before."""
    names = [f"m{number}" for number in range(12)]
    for name in reversed(names):
        ledger.note([entry_of(name)])
    ledger.note([parked_until(NOW + 5, name) for name in names])

    found = ledger.parked("MAIN", after=NOW)
    assert ids(found) == names
    assert {entry.parked_until for entry in found} == {NOW + 5}


def test_times_of_different_length_sort_by_time(ledger):
    """As text they would not, without care."""
    ledger.note([parked_until(float(until), f"m{until}") for until in (9, 10, 100, 99_999, 1_800_000_000)])

    assert ids(ledger.parked("MAIN", after=9.5)) == ["m10", "m100", "m99999", "m1800000000"]


def test_unparking_ends_the_parking_and_nothing_else(ledger):
    """Counts stay as they are."""
    entries = [
        dataclasses.replace(parked_until(NOW + 9, name, receipt=name), attempts=2, yields=3) for name in "ab"
    ]
    ledger.note(entries)

    assert ledger.unpark(entries)
    found = ledger.read("MAIN", ["a", "b"])

    assert list(ledger.parked("MAIN", after=NOW)) == []
    assert all((entry.park, entry.attempts, entry.yields) == (None, 2, 3) for entry in found.values())


@pytest.mark.parametrize("change", ["woken", "received and parked again", "received and done", "never noted"])
def test_unparking_is_all_or_none(ledger, change):
    """One that somebody else has woken or received since leaves all as they are."""
    entries = [parked_until(NOW + 9, name, receipt=name) for name in "abc"]
    ledger.note(entries if change != "never noted" else entries[:2])
    if change == "woken":
        assert ledger.unpark([entries[2]])
    elif change == "received and parked again":
        ledger.note([dataclasses.replace(entries[2], receipt_handle="another")])
    elif change == "received and done":
        ledger.note([entry_of("c")])

    assert not ledger.unpark(entries)

    assert {"a", "b"} <= set(ids(ledger.parked("MAIN", after=NOW)))


def test_unparking_twice_succeeds_once(ledger):
    """The second waker is told."""
    entries = [parked_until(NOW + 9, name, receipt=name) for name in "ab"]
    ledger.note(entries)

    assert [ledger.unpark(entries), ledger.unpark(entries)] == [True, False]


def begin(ledger, owner="one", now=NOW, effect_id="e", until=None):
    until = now + 30 if until is None else until
    return ledger.begin_effect(effect_id, owner=owner, now=now, until=until).effect


def finish(ledger, owner="one", now=NOW, keep=100, effect_id="e"):
    ledger.finish_effect(effect_id, owner=owner, lane="MAIN", now=now, keep_until=now + keep)


def test_the_state_of_a_rate_is_replaced_by_one_who_knows_it(ledger):
    """Of two slots that take the same time, one gets it, and the other learns the state."""
    assert ledger.swap_rate("mail*", "", "1.000") is None
    assert ledger.swap_rate("mail*", "", "1.000") == "1.000"
    assert ledger.swap_rate("mail*", "1.000", "2.000;0:3.000") is None
    assert ledger.swap_rate("mail*", "1.000", "2.500") == "2.000;0:3.000"
    assert ledger.swap_rate("other", "", "9.000") is None


def test_an_effect_begins_once_for_each_owner(ledger):
    """The client repeats a call with a lost answer; another message waits."""
    assert begin(ledger) is Effect.BEGUN
    assert begin(ledger) is Effect.BEGUN
    assert begin(ledger, "two") is Effect.ELSEWHERE
    assert begin(ledger, "two", effect_id="other") is Effect.BEGUN


def test_two_deliveries_of_one_message_are_two_owners(ledger):
    """The second one learns that it is the same message, which the first one accounts for."""
    assert begin(ledger, "m1/one") is Effect.BEGUN
    assert begin(ledger, "m1/two") is Effect.TWICE
    assert begin(ledger, "m2/one") is Effect.ELSEWHERE


def test_a_claim_ends_with_its_time(ledger):
    """Whoever held it has crashed."""
    begin(ledger)

    assert begin(ledger, "two", NOW + 29) is Effect.ELSEWHERE
    assert begin(ledger, "two", NOW + 30) is Effect.BEGUN
    assert begin(ledger, "one", NOW + 31) is Effect.ELSEWHERE


def test_a_claim_that_is_given_back_is_free(ledger):
    """At once, for anybody."""
    begin(ledger)
    ledger.release_effect("e", owner="one")

    assert begin(ledger, "two") is Effect.BEGUN


def test_nobody_gives_back_the_claim_of_another(ledger):
    """Nor one that isn't there."""
    begin(ledger)
    ledger.release_effect("e", owner="two")
    ledger.release_effect("none", owner="two")

    assert begin(ledger, "two") is Effect.ELSEWHERE


def test_an_effect_that_was_done_is_done_for_everybody(ledger):
    """Its owner included, and giving it back changes nothing."""
    begin(ledger)
    finish(ledger)
    ledger.release_effect("e", owner="one")

    assert begin(ledger) is Effect.DONE
    assert begin(ledger, "two") is Effect.DONE


def test_a_claim_of_a_done_effect_says_in_which_lane_it_was_done(ledger):
    """A duplicate in another lane is worth a warning; a new claim after the window forgets it."""
    begin(ledger)
    finish(ledger)

    assert ledger.begin_effect("e", owner="two", now=NOW, until=NOW + 30) == (Effect.DONE, "MAIN", 0)
    assert ledger.begin_effect("e", owner="two", now=NOW + 101, until=NOW + 130) == (Effect.BEGUN, "", 0)


@pytest.mark.parametrize("owner", ["one", "two"])
def test_after_the_window_an_effect_may_begin_again(ledger, owner):
    """Also by another message, also while the table still holds the old item."""
    begin(ledger)
    finish(ledger)

    assert begin(ledger, owner, NOW + 99) is Effect.DONE
    assert begin(ledger, owner, NOW + 101) is Effect.BEGUN
    assert begin(ledger, "three", NOW + 102) is Effect.ELSEWHERE


def test_an_effect_is_done_whoever_owns_it_by_then(ledger):
    """It has happened, late or not."""
    begin(ledger)
    begin(ledger, "two", NOW + 31)

    finish(ledger, "one", NOW + 32)

    assert begin(ledger, "two", NOW + 33) is Effect.DONE


@pytest.mark.parametrize("effect_id", ["a#b", "x" * 1000, "x" * 1001, "ü" * 3000, "#"])
def test_ids_of_any_length_name_an_effect(ledger, effect_id):
    """AWS: a partition key has at most 2,048 bytes."""
    assert begin(ledger, effect_id=effect_id) is Effect.BEGUN
    finish(ledger, effect_id=effect_id)

    assert begin(ledger, "two", effect_id=effect_id) is Effect.DONE
    assert begin(ledger, "two", effect_id=effect_id + "y") is Effect.BEGUN


def test_pages_of_a_query_are_put_together(stored):
    """AWS: a page holds 1 MB."""
    entries = [parked_until(NOW + number, f"m{number}", receipt="r" * 40_000) for number in range(1, 61)]
    stored.note(entries)

    assert ids(stored.parked("MAIN", after=NOW)) == [f"m{number}" for number in range(1, 61)]
    assert ids(stored.parked("MAIN", after=NOW, limit=7)) == [f"m{number}" for number in range(1, 8)]


def test_a_long_error_is_cut(stored):
    """An item has at most 400 KB, and who reads it needs the beginning."""
    stored.note([entry_of(last_error="x" * 500_000, given_up="y" * 500_000)])

    found = stored.read("MAIN", ["m"])["m"]
    assert (len(found.last_error), len(found.given_up)) == (1000, 1000)


@pytest.mark.parametrize("character", ["x", "ü", "世", "😀"])
def test_the_key_of_an_effect_fits_whatever_its_characters_take(stored, dynamodb, character):
    """AWS: a partition key has at most 2,048 bytes; moto takes longer ones."""
    for length in (450, 500, 700, 999, 1000):
        begin(stored, effect_id=character * length)

    keys = [item["pk"]["S"] for item in dynamodb.scan(TableName=TABLE)["Items"]]
    assert len(keys) == 5
    assert max(len(key.encode()) for key in keys) <= 2048


def test_entries_and_effects_expire(stored, dynamodb):
    """A message lives at most 14 days; an effect is kept for its window."""
    stored.note([entry_of()])
    begin(stored)
    finish(stored, keep=500)

    items = {
        item["pk"]["S"]: int(item["expires_at"]["N"]) for item in dynamodb.scan(TableName=TABLE)["Items"]
    }
    assert items == {"message#MAIN#m": NOW + KEPT_SECONDS, "effect#e": NOW + 500}


def test_a_table_that_is_not_there_is_an_aws_error(dynamodb):
    """For every operation, with its name."""
    ledger = DynamoDBLedger(table="nowhere", client=dynamodb)

    for operation, call in {
        "BatchGetItem": lambda: ledger.read("MAIN", ["m"]),
        "PutItem": lambda: ledger.note([entry_of()]),
        "BatchWriteItem": lambda: ledger.note([entry_of("a"), entry_of("b")]),
        "Query": lambda: ledger.parked("MAIN", after=NOW),
        "UpdateItem": lambda: begin(ledger),
        "DeleteItem": lambda: ledger.release_effect("e", owner="one"),
        "TransactWriteItems": lambda: ledger.unpark([parked_until(NOW)]),
    }.items():
        with pytest.raises(AwsError) as caught:
            call()
        assert caught.value.operation == operation


class Reluctant:
    """A client that leaves part of each batch undone for some time."""

    def __init__(self, client, *, times):
        self._client = client
        self._times = times

    def __getattr__(self, name):
        return getattr(self._client, name)

    def batch_get_item(self, **request):
        keys = request["RequestItems"][TABLE]["Keys"]
        if self._times == 0 or len(keys) == 1:
            return self._client.batch_get_item(**request)
        self._times -= 1
        half = len(keys) // 2
        answer = self._client.batch_get_item(
            RequestItems={TABLE: {"Keys": keys[:half], "ConsistentRead": True}}
        )
        return {**answer, "UnprocessedKeys": {TABLE: {"Keys": keys[half:], "ConsistentRead": True}}}

    def batch_write_item(self, **request):
        requests = request["RequestItems"][TABLE]
        if self._times == 0 or len(requests) == 1:
            return self._client.batch_write_item(**request)
        self._times -= 1
        half = len(requests) // 2
        self._client.batch_write_item(RequestItems={TABLE: requests[:half]})
        return {"UnprocessedItems": {TABLE: requests[half:]}}


def test_what_a_batch_leaves_undone_is_asked_for_again(dynamodb):
    """AWS: a batch call may process a part only."""
    ledger = DynamoDBLedger(table=TABLE, client=Reluctant(dynamodb, times=2))
    entries = [entry_of(f"m{number}") for number in range(16)]
    ledger.note(entries)

    ledger = DynamoDBLedger(table=TABLE, client=Reluctant(dynamodb, times=2))

    assert set(ledger.read("MAIN", ids(entries))) == set(ids(entries))


@pytest.mark.parametrize("call", ["read", "note"])
def test_what_stays_undone_is_an_error(dynamodb, call):
    """Nobody may take a part for the whole."""
    ledger = DynamoDBLedger(table=TABLE, client=Reluctant(dynamodb, times=99))
    entries = [entry_of(f"m{number}") for number in range(16)]

    with pytest.raises(AwsError, match="Unprocessed"):
        ledger.read("MAIN", ids(entries)) if call == "read" else ledger.note(entries)


def test_a_conflict_between_transactions_wakes_nothing(stored, dynamodb, monkeypatch):
    """Somebody else is about to wake the same records."""

    def busy(**_):
        raise ClientError({"Error": {"Code": "TransactionConflictException"}}, "TransactWriteItems")

    monkeypatch.setattr(dynamodb, "transact_write_items", busy)

    assert not stored.unpark([parked_until(NOW + 5)])


class RawBody(BytesIO):
    """A body as botocore reads it from a connection."""

    def stream(self, **_):
        """Give all of it."""
        yield self.read()


@pytest.mark.parametrize(
    ("tries", "error"),
    [
        ("", None),
        ("refused", None),
        ("lost", "NoAnswer"),
        ("lost refused", "NoAnswer"),
        ("broken", "NoAnswer"),
        ("refused refused", "ThrottlingException"),
    ],
)
def test_a_try_without_an_answer_may_land_late(table_client, monkeypatch, tries, error):
    """It has no condition, so a later write might be replaced; a throttled try was refused."""
    planned = tries.split()

    def answer(**_):
        match planned.pop(0) if planned else "":
            case "refused":
                body = b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException"}'
                return AWSResponse("https://dynamodb", 400, {}, RawBody(body))
            case "broken":
                return AWSResponse("https://dynamodb", 500, {}, RawBody(b"{}"))
            case "lost":
                raise ReadTimeoutError(endpoint_url="https://dynamodb")

    table_client.meta.events.register_first("before-send.dynamodb.BatchWriteItem", answer)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    ledger = DynamoDBLedger(table=TABLE, client=table_client, clock=lambda: NOW)
    entries = [entry_of("a"), entry_of("b")]
    if error is None:
        ledger.note(entries)
    else:
        with pytest.raises(AwsError) as raised:
            ledger.note(entries)
        assert (raised.value.code, raised.value.answered) == (error, error != "NoAnswer")

    assert not planned
    ledger.note(entries)
    assert ledger.read("MAIN", ["a", "b"]) == {"a": entries[0], "b": entries[1]}
