"""Resources that are away, as the log of their slots shows them."""

import json

import pytest

from lanes.operate.descriptions import describe
from lanes.operate.log import LogEvent, LogLine
from lanes.operate.symptoms import away_resources

NOW = 1_800_000_000.0  # 08:00:00Z
LATE = 60.0


def away(ago, *, slot="one", lane="MAIN", resource="bank", **fields):
    """Return a failed try, so many seconds ago."""
    known = {"since": NOW - 600, "tries": 12, "next_at": NOW + 20, "reason": "OSError: refused"} | fields
    return event("resource_away", ago, slot, lane=lane, resource=resource, **known)


def back(ago, *, slot="one", resource="bank"):
    """Return a try that found the resource, so many seconds ago."""
    return event("resource_back", ago, slot, lane="MAIN", resource=resource, seconds=1.0)


def event(name, ago, slot, **fields):
    """Return an event of the log."""
    line = LogLine(id="", at=NOW - ago, text=json.dumps(fields), stream=slot)
    return LogEvent(line=line, name=name, fields=fields)


def described(*events):
    """Describe what is away now."""
    return [one.describe(NOW) for one in away_resources(events, now=NOW, late=LATE)]


def test_a_resource_is_away_since_its_first_failed_call_until_its_next_try():
    """The latest try of a slot counts its earlier ones."""
    earlier = away(100, tries=11, next_at=NOW - 40)

    assert described(away(40), earlier) == [
        "bank away since 07:50:00Z, 12 tries, next 08:00:20Z; last 07:59:20Z (OSError: refused)"
    ]


def test_the_tries_of_all_slots_are_added_and_the_next_of_any_is_shown():
    """Two of them share a log stream, and began at different times."""
    one = away(30, since=NOW - 86_400, tries=4, next_at=NOW + 30)
    two = away(20, since=NOW - 500, tries=5, next_at=NOW + 10, lane="HIGH")
    three = away(10, slot="other", tries=6, next_at=NOW + 50, reason="closed")

    (found,) = away_resources([one, two, three], now=NOW, late=LATE)

    assert found.describe(NOW) == (
        "bank away since 2027-01-14 08:00:00Z, 15 tries by 3 slots, next 08:00:10Z; last 07:59:50Z (closed)"
    )
    assert found.lanes == ["HIGH", "MAIN"]


def test_a_resource_that_any_slot_found_again_is_not_away():
    """Until a later try finds it away once more; another resource is of no account."""
    first, found = away(50, slot="one"), back(40, slot="two")

    assert described(first, found) == []
    assert described(found, first, back(5, resource="mail")) == []
    (again,) = described(first, found, away(30, slot="three", tries=3, since=NOW - 35))
    assert again.startswith("bank away since 07:59:25Z, 3 tries, next")


def test_a_resource_that_no_slot_tries_any_more_is_unknown():
    """A slot that ended says nothing: neither that it is away nor that it is back."""
    assert described(away(200, next_at=NOW - LATE + 1))[0].startswith(
        "bank away since 07:50:00Z, 12 tries, next 07:59:01Z"
    )
    assert described(away(200, next_at=NOW - LATE)) == [
        "bank unknown: away since 07:50:00Z, 12 tries at the last try, 07:56:40Z (OSError: refused)"
    ]


def test_one_overdue_slot_is_not_counted_among_those_that_wait():
    """Its tries are."""
    ended, waits = away(300, slot="one", tries=4, next_at=NOW - 240), away(9, slot="two", tries=5)

    assert described(ended, waits)[0].startswith("bank away since 07:50:00Z, 9 tries, next 08:00:20Z")


@pytest.mark.parametrize("lacking", ["since", "tries", "next_at"])
def test_what_a_slot_of_another_release_did_not_log_is_unknown(lacking):
    """No figure is made up."""
    (found,) = away_resources([away(10, **{lacking: None})], now=NOW, late=LATE)

    assert getattr(found, lacking) is None
    assert "unknown" in found.describe(NOW)


def test_an_event_of_one_slot_is_described_in_the_same_words():
    """In `lanes tail`, and in the page's list of events."""
    fields = away(0).fields

    assert describe("resource_away", fields) == (
        "resource away",
        "bank away since 07:50:00Z, 12 tries by this slot, next 08:00:20Z (OSError: refused)",
    )
    assert describe("resource_back", {"resource": "bank", "seconds": 90.0}) == (
        "resource back",
        "bank back after 90 s, as this slot found it",
    )
