"""Members of a run in a file, as those in memory."""

from contextlib import closing

import pytest

from lanes.errors import RunError
from lanes.producer.run import MemberSet, chunks_of, digest
from lanes.runs import MOST_IN_CHUNK, Mark
from spark_jobs.following import FiledMembers


def test_members_in_a_file_are_those_in_memory():
    """Number, order and chunks: both have one digest, so each can finish the seal of the other."""
    mark = Mark("spring", 7)
    ids = [f"spark#a.kind#{number}" for number in range(500)]
    kept = MemberSet(mark.chunks)
    kept.add([*ids, *ids[:9]])
    with closing(FiledMembers(mark)) as filed:
        filed.add_all([ids[300:], ids[:301], []])

        assert (len(filed), list(filed)) == (len(kept), list(kept))
        assert digest(filed) == digest(kept)


def test_a_run_has_room_for_250_times_as_many_as_expected():
    """An item of DynamoDB has at most 400 KB; with more members no end of them could be written."""
    mark = Mark("spring", 2)
    mark.check_room(2 * MOST_IN_CHUNK)

    with pytest.raises(RunError, match="would have 20,001 members, and with its `expected` it takes 20,000"):
        mark.check_room(2 * MOST_IN_CHUNK + 1)


def test_chunks_without_a_member_have_none():
    """Before, between and after the others: every chunk is sealed."""
    members = [(2, b"a"), (2, b"b"), (4, b"c")]

    assert list(chunks_of(members, range(1, 6))) == [
        (1, frozenset()),
        (2, frozenset({b"a", b"b"})),
        (3, frozenset()),
        (4, frozenset({b"c"})),
        (5, frozenset()),
    ]
