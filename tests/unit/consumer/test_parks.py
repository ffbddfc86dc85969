"""What an environment knows of parked records."""

from lanes.consumer.ledger import Entry, Park
from lanes.consumer.parks import INDEX_LAG, ParkKnowledge

NOW = 1_800_000_000.0


def parked(message_id, until, *, lane="MAIN", noted_at=NOW):
    return Entry(
        lane=lane, message_id=message_id, park=Park.YIELD, parked_until=until, noted_at=noted_at, batch="b"
    )


def ids(parks, now=NOW, lane="MAIN"):
    return {entry.message_id for entry in parks.entries(lane, now=now)}


def test_what_is_noted_is_known_until_its_parking_ends():
    """Nobody says when it does."""
    parks = ParkKnowledge()
    parks.note([parked("a", NOW + 5), parked("b", NOW + 9), parked("c", NOW + 9, lane="MEDIUM")])

    assert ids(parks) == {"a", "b"}
    assert (parks.count("MAIN", now=NOW + 5), parks.latest("MAIN", now=NOW + 5)) == (1, NOW + 9)
    assert (parks.count("MAIN", now=NOW + 9), parks.latest("MAIN", now=NOW + 9)) == (0, 0.0)


def test_what_was_seen_again_is_parked_no_more():
    """Received, or noted as not parked."""
    parks = ParkKnowledge()
    parks.note([parked("a", NOW + 5), parked("b", NOW + 5), parked("c", NOW + 5)])

    parks.forget("MAIN", ["a", "unknown"])
    parks.note([Entry(lane="MAIN", message_id="b")])

    assert ids(parks) == {"c"}


def test_what_the_ledger_says_replaces_what_is_old():
    """Its index may lag behind, so what was parked a moment ago stays known."""
    parks = ParkKnowledge()
    parks.note([parked("old", NOW + 50), parked("new", NOW + 50, noted_at=NOW + 10)])

    parks.replace("MAIN", [parked("theirs", NOW + 50)], now=NOW + 10 + INDEX_LAG / 2)

    assert ids(parks, NOW + 12) == {"new", "theirs"}


def test_what_the_ledger_was_never_told_stays_known():
    """However old it is."""
    parks = ParkKnowledge()
    parks.note([parked("own", NOW + 50)], written=False)

    parks.replace("MAIN", [], now=NOW + 40)

    assert ids(parks, NOW + 40) == {"own"}


def test_a_reading_is_fresh_for_a_while():
    """By lane, and until it is distrusted."""
    parks = ParkKnowledge()
    assert not parks.is_fresh("MAIN", now=NOW, age=100)
    parks.replace("MAIN", [], now=NOW)

    assert parks.is_fresh("MAIN", now=NOW + 1, age=1)
    assert not parks.is_fresh("MAIN", now=NOW + 1.1, age=1)
    assert not parks.is_fresh("MEDIUM", now=NOW, age=1)
    parks.distrust("MAIN")
    assert not parks.is_fresh("MAIN", now=NOW, age=1)
