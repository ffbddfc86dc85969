"""The register of slots in memory and in DynamoDB: the same answers, and a table item that stays small."""

import dataclasses

import boto3
import pytest
from moto import mock_aws

from lanes.aws.slot_register import FORGOTTEN_AFTER, DynamoDBSlotRegister
from lanes.consumer.slots import Occupation
from lanes.errors import AwsError
from tests.support.memory import Calls, MemoryRegister
from tests.support.table import TABLE, create_table

NOW = 1_800_000_000.0


@pytest.fixture
def dynamodb():
    """Return a client of an empty account with the table."""
    with mock_aws():
        create_table()
        yield boto3.client("dynamodb")


@pytest.fixture(params=["memory", "dynamodb"])
def register(request):
    """Each register in turn."""
    if request.param == "memory":
        return MemoryRegister(Calls())
    return DynamoDBSlotRegister(table=TABLE, client=request.getfixturevalue("dynamodb"))


def line(environment, lane="HIGH", *, records=10, busy=True, until=NOW + 30):
    return Occupation(environment=environment, lane=lane, records=records, busy=busy, until=until)


def write(register, occupation, now=NOW, **parked_until):
    return register.write(occupation, now=now, parked_until=parked_until)


def test_an_environment_sees_the_others_and_not_itself(register):
    """In the answer to its own line, too."""
    assert write(register, line("a")).others == ()

    assert write(register, line("b")).others == (line("a"),)
    assert register.read("a").others == (line("b"),)
    assert set(register.read("c").others) == {line("a"), line("b")}


def test_a_line_replaces_the_one_before(register):
    """An environment runs one invocation at a time."""
    write(register, line("a"))
    write(register, line("a", "MAIN", records=3, busy=False))

    assert register.read("b").others == (line("a", "MAIN", records=3, busy=False),)


def test_what_went_back_is_told_as_long_as_the_line_holds(register):
    """By lane: the ledger may not say yet until when."""
    write(register, dataclasses.replace(line("a", busy=False, until=NOW + 0.25), kept=3))

    seen = register.read("b")

    assert seen.kept_some("HIGH", NOW)
    assert not seen.kept_some("MAIN", NOW)
    assert not seen.kept_some("HIGH", NOW + 0.3)


def test_an_empty_register_can_be_read(register):
    """Before the first invocation has entered itself."""
    assert register.read("a").others == ()
    assert register.read("a").parked_until == {}


def test_lanes_tell_until_when_they_are_parked(register):
    """Each lane by itself; the latest word counts."""
    write(register, line("a"), MAIN=NOW + 5.5, MEDIUM=NOW + 7)
    write(register, line("b"), MAIN=NOW + 9)

    assert register.read("c").parked_until == {"MAIN": NOW + 9, "MEDIUM": NOW + 7}
    assert write(register, line("c")).parked_until == {"MAIN": NOW + 9, "MEDIUM": NOW + 7}


def test_slots_and_records_are_counted_while_their_lines_mean_something(register):
    """Busy ones for slots, all for records in flight, by lane."""
    write(register, line("a"))
    write(register, line("b", "MAIN", records=4))
    write(register, line("c", records=2, busy=False, until=NOW + 0.25))

    seen = register.read("d")

    assert seen.busy(NOW) == 2
    assert seen.busy(NOW, "MAIN") == 1
    assert (seen.records_of("HIGH", NOW), seen.records_of("MAIN", NOW)) == (12, 4)
    assert seen.records_of("HIGH", NOW + 1) == 10
    assert seen.busy(NOW + 31) == 0


def test_lines_that_mean_nothing_any_more_are_cleared_away(dynamodb):
    """Environments come and go, and an item has at most 400 KB."""
    for number in range(50):
        write(DynamoDBSlotRegister(table=TABLE, client=dynamodb), line(f"old{number}"))
    later = NOW + 30 + FORGOTTEN_AFTER + 1
    survivor = DynamoDBSlotRegister(table=TABLE, client=dynamodb)
    write(survivor, line("young", until=later + 30), later)
    write(survivor, line("young", until=later + 60), later)

    item = dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": "slots"}})["Item"]
    assert {name for name in item if name.startswith("line#")} == {"line#young"}


def test_names_of_lanes_need_no_care(register):
    """Digits, dashes, words that DynamoDB reserves."""
    write(register, line("a", "TABLE-1_b"), **{"TABLE-1_b": NOW + 1, "SET": NOW + 2})

    assert register.read("b").others == (line("a", "TABLE-1_b"),)
    assert set(register.read("b").parked_until) == {"TABLE-1_b", "SET"}


def test_a_table_that_is_not_there_is_an_aws_error(dynamodb):
    """Both ways."""
    register = DynamoDBSlotRegister(table="nowhere", client=dynamodb)

    with pytest.raises(AwsError, match="GetItem"):
        register.read("a")
    with pytest.raises(AwsError, match="UpdateItem"):
        write(register, line("a"))


def take(register, environment, slot=0, *, now=NOW, until=NOW + 30, lane="HIGH"):
    return register.take(line(environment, lane, until=until), slot, now=now, parked_until={})


def test_a_slot_is_taken_by_one(register):
    """Whoever comes second changes nothing, not even its line."""
    assert take(register, "a") is not None

    assert take(register, "b") is None

    assert register.read("c").taken == {0: NOW + 30}
    assert [other.environment for other in register.read("c").others] == ["a"]


def test_each_slot_is_one_of_its_own(register):
    """And taking one tells of all."""
    take(register, "a", 0)

    seen = take(register, "b", 1)

    assert seen.taken == {0: NOW + 30, 1: NOW + 30}
    assert seen.others == (line("a"),)


def test_a_slot_whose_time_is_over_may_be_taken(register):
    """Its holder's invocation can't run any more."""
    take(register, "lost")

    assert take(register, "b", now=NOW + 29.9) is None
    assert take(register, "b", now=NOW + 30, until=NOW + 60) is not None


def test_a_holder_may_take_its_slot_again(register):
    """The answer may have been lost."""
    take(register, "a")

    assert take(register, "a", until=NOW + 40) is not None


def test_a_slot_is_given_back_with_the_line(register):
    """One call, and it is free for the next."""
    take(register, "a")

    register.write(line("a", busy=False), now=NOW, parked_until={}, frees=0)

    assert register.read("b").taken == {}
    assert take(register, "b") is not None


def test_nobody_gives_another_ones_slot_back(register):
    """The line is written all the same."""
    take(register, "late", until=NOW + 1)
    take(register, "b", now=NOW + 2)

    register.write(line("late", busy=False), now=NOW + 3, parked_until={}, frees=0)

    assert register.read("x").taken == {0: NOW + 30}
    assert line("late", busy=False) in register.read("x").others


def test_who_waits_is_told_with_lane_rank_and_since_when(register):
    """As long as the line holds."""
    waits = dataclasses.replace(line("a", busy=False, until=NOW + 3), waiting_since=NOW - 1, rank=0)
    write(register, waits)

    seen = register.read("b")

    assert seen.others == (waits,)
    assert (seen.waiting(NOW, "HIGH"), seen.waiting(NOW, "MAIN"), seen.waiting(NOW + 3, "HIGH")) == (1, 0, 0)


def test_whose_records_a_slot_works_on_is_told(register):
    """While it is busy, by lane and tenant."""
    write(register, dataclasses.replace(line("a", until=NOW + 30), tenant="acme"))
    write(register, dataclasses.replace(line("c", busy=False, until=NOW + 30), tenant="acme"))

    seen = register.read("b")

    lane = seen.others[0].lane
    assert seen.busy_with(lane, "acme", NOW) == 1
    assert seen.busy_with(lane, "other", NOW) == 0
    assert seen.busy_with("NONE", "acme", NOW) == 0
    assert seen.busy_with(lane, "acme", NOW + 31) == 0


def test_who_has_a_slot_tells_which_and_when_it_is_likely_to_give_it_back(register):
    """Until it tells something else."""
    holder = dataclasses.replace(line("a"), slot=2, ends_about=NOW + 1.25)

    register.take(holder, 2, now=NOW, parked_until={})
    seen = register.read("b")
    write(register, line("a", busy=False))

    assert seen.others == (holder,)
    assert register.read("b").others == (line("a", busy=False),)
