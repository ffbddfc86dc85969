"""Members of a run in a file, as those in memory."""

from contextlib import closing

import pytest

from lanes.errors import RunError
from lanes.producer.seal import MemberSet
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
        assert [filed.of(chunk) for chunk in range(8)] == [kept.of(chunk) for chunk in range(8)]


def test_a_run_has_room_for_250_times_as_many_as_expected():
    """An item of DynamoDB has at most 400 KB; with more members no end of them could be written."""
    mark = Mark("spring", 2)
    mark.check_room(2 * MOST_IN_CHUNK)

    with pytest.raises(RunError, match="would have 20,001 members, and with its `expected` it takes 20,000"):
        mark.check_room(2 * MOST_IN_CHUNK + 1)
