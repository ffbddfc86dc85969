"""The items of runs in DynamoDB, step by step as the ones in memory."""

from random import Random

import pytest

from lanes.aws.runs import KEPT_SECONDS, DynamoDBRuns
from lanes.errors import AwsError
from lanes.producer.run import MemberSet, open_run, seal
from lanes.runs import Counts, End, Ends, Head, chunks_for
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryRuns
from tests.support.operating import TABLE

HEAD = Head(name="r", chunks=3, on_complete="over", source="shop", priority=60)
ONE, TWO = b"1" * 8, b"2" * 8


def steps(runs, clock):
    """Take every step of a run, in right and in wrong order; yield the answers."""
    mark = HEAD.mark
    yield runs.head("r")
    yield runs.end_run(mark, Counts())
    runs.sealed("r")
    yield runs.close("r", who="ops", why="no")
    yield runs.open_run(HEAD)
    clock.advance(1)
    yield runs.open_run(Head(name="r", chunks=7))
    yield runs.end_run(mark, Counts())
    yield runs.add_end(mark, 0, End.DONE, ONE), runs.add_end(mark, 0, End.DEAD_LETTERED, ONE)
    yield runs.fix_members("r", total=2, members="a"), runs.fix_members("r", total=2, members="a")
    yield runs.fix_members("r", total=2, members="b"), runs.fix_members("s", total=2, members="a")
    yield runs.head("r").state
    yield runs.seal_chunk(mark, 0, frozenset({ONE, TWO})), runs.seal_chunk(mark, 0, frozenset({TWO, ONE}))
    yield runs.seal_chunk(mark, 0, frozenset({TWO})), runs.seal_chunk(mark, 0, frozenset())
    yield runs.seal_chunk(mark, 1, frozenset()), runs.seal_chunk(mark, 1, frozenset())
    yield runs.seal_chunk(mark, 1, frozenset({TWO}))
    runs.sealed("r")
    yield runs.add_end(mark, 0, End.CANCELLED, TWO), runs.add_end(mark, 0, End.EXPIRED, b"3" * 8)
    yield runs.add_child(mark, 1, 0, 0, Counts(done=1, cancelled=1)), runs.add_child(mark, 1, 0, 1, Counts())
    yield runs.add_child(mark, 1, 0, 0, Counts(done=2))
    yield runs.chunks(mark, range(3))
    clock.advance(1)
    yield runs.end_run(Head(name="r", chunks=7).mark, Counts())
    # An earlier run of this name, whose head was deleted by its time to live before its last dead letter was redriven.
    yield (
        runs.end_run(Head(name="r", chunks=3, key="earlier").mark, Counts()),
        runs.end_run(mark, Counts(done=2)),
    )
    clock.advance(1)
    yield runs.end_run(mark, Counts(done=1)), runs.close("r", who="ops", why="late")
    runs.announced("r")
    clock.advance(1)
    runs.announced("r")
    yield runs.head("r"), runs.head("r").announcement()
    yield runs.open_run(Head(name="t", chunks=1)), runs.close("t", who="ops", why="no sender")
    yield runs.close("t", who="ops", why="again"), runs.fix_members("t", total=0, members="")
    yield runs.heads(since=0, limit=9), runs.heads(since=clock.now + 1, limit=9), runs.heads(since=0, limit=1)


def test_both_tables_answer_alike(dynamodb):
    """So what the tests show in memory holds on AWS."""
    clocks = FakeClock(), FakeClock()
    table = DynamoDBRuns(table=TABLE, client=dynamodb, clock=clocks[0])
    memory = MemoryRuns(Calls(), clocks[1])
    for number, (found, wanted) in enumerate(
        zip(steps(table, clocks[0]), steps(memory, clocks[1]), strict=True)
    ):
        assert found == wanted, number


def test_every_write_renews_the_time_to_live(dynamodb):
    """A run is kept for 45 days after its last write, and its chunks with it."""
    clock = FakeClock()
    runs = DynamoDBRuns(table=TABLE, client=dynamodb, clock=clock)
    runs.open_run(HEAD)
    runs.add_end(HEAD.mark, 2, End.DONE, ONE)
    clock.advance(100)
    runs.fix_members("r", total=1, members="a")
    items = {item["pk"]["S"]: item for item in dynamodb.scan(TableName=TABLE)["Items"]}
    assert {key: int(item["expires_at"]["N"]) - clock.now for key, item in items.items()} == {
        "run#r": KEPT_SECONDS,
        "run#r#3##0#2": KEPT_SECONDS - 100,
    }


def test_a_missing_table_is_an_error(dynamodb):
    """Not an absent run."""
    with pytest.raises(AwsError, match="ResourceNotFound"):
        DynamoDBRuns(table="none", client=dynamodb).add_end(HEAD.mark, 0, End.DONE, ONE)


class Counting:
    """A client that counts write units by AWS's rules for the sizes of items."""

    def __init__(self, client):
        self._client = client
        self.units = 0

    def update_item(self, **how):
        answer = self._client.update_item(**how)
        self.units += -(-size_of(self.item(how["Key"])) // 1024)
        return answer

    def item(self, key):
        return self._client.get_item(TableName=TABLE, Key=key)["Item"]

    def __getattr__(self, name):
        return getattr(self._client, name)


def size_of(item):
    """
    Return the size of an item in bytes.

    AWS: names and values; a number has a byte for two digits and one more, a set or map three more in all and one for
    each value (DynamoDB developer guide, "DynamoDB item sizes and formats").
    """
    sizes = {
        "S": lambda text: len(text.encode()),
        "N": lambda digits: len(digits) // 2 + 2,
        "BS": lambda values: 3 + sum(len(value) + 1 for value in values),
        "M": lambda values: 3 + sum(1 + len(name) + size(value) for name, value in values.items()),
    }

    def size(value):
        ((kind, content),) = value.items()
        return sizes[kind](content)

    return sum(len(name) + size(value) for name, value in item.items())


@pytest.mark.parametrize(
    ("members", "sealed_first"), [(200, False), pytest.param(400, True, marks=pytest.mark.deep)]
)
def test_a_member_costs_little_more_than_a_write_unit(dynamodb, members, sealed_first):
    """At most 1.1 units with the seal and the tree, in any order of members and ends."""
    counting = Counting(dynamodb)
    table = DynamoDBRuns(table=TABLE, client=counting)
    told = []
    identities = [f"shop#statement#c-{number}" for number in range(members)]
    mark = open_run(table, Head(name="r", chunks=chunks_for(members), on_complete="over", source="shop"))
    found = MemberSet(mark.chunks)
    found.add(identities)
    if sealed_first:
        seal(table, mark, found, announce=told.append, concurrency=1)
    ends = Ends(table=table, announce=told.append)
    Random(1).shuffle(identities)
    for number, identity in enumerate(identities):
        ends.record(mark, identity, End.DEAD_LETTERED if number % 20 == 0 else End.DONE)
    if not sealed_first:
        seal(table, mark, found, announce=told.append, concurrency=1)

    (end,) = told
    assert (end.data["done"], end.data["dead_lettered"]) == (members * 19 // 20, members // 20)
    assert counting.units <= 1.1 * members, counting.units / members
