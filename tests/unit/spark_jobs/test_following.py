"""Members of a run in a file and shared by tasks, as those in memory."""

import json
from contextlib import closing
from types import SimpleNamespace

import pytest

from lanes.errors import RunError
from lanes.producer.seal import DIGESTS, MemberSet, chunks_of, digest
from lanes.runs import MOST_IN_CHUNK, Mark
from spark_jobs.following import FiledMembers, Share, SharedSeal
from spark_jobs.manifest.storage import open_storage


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


@pytest.mark.parametrize(("chunks", "shares"), [(7, 3), (3, 7), (1, 1), (100_000, 13)])
def test_each_chunk_belongs_to_one_share(chunks, shares):
    """Whichever of the two numbers is larger."""
    shared = SharedSeal(options=None, deployment=None, mark=Mark("spring", chunks), shares=shares)

    ranges = [shared.range_of(share) for share in range(shares)]

    assert [chunk for one in ranges for chunk in one] == list(range(chunks))
    assert all(chunk * shares // chunks == share for share, one in enumerate(ranges) for chunk in one)


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


@pytest.mark.parametrize("shares", [1, 3, 20])
def test_shares_have_together_what_one_process_has(tmp_path, shares):
    """Number and digest, whatever the order of the files and the repeats in them; another number is refused."""
    storage = open_storage(str(tmp_path), endpoint_url=None, region=None)
    ids = [f"spark#a.kind#{number}" for number in range(60)]
    for name, some in {"a": ids[:40], "b": ids[30:]}.items():
        storage.write(name, json.dumps({"ids": some}).encode())
    options = SimpleNamespace(storage=lambda: storage)
    shared = SharedSeal(options=options, deployment=None, mark=Mark("spring", 11), shares=shares)
    kept = MemberSet(11)
    kept.add(ids)

    lists = [*shared.sort(iter(["b"])), *shared.sort(iter(["a"]))]
    of_share = [[one for one in lists if one[0] == share] for share in range(shares)]
    counted = [share for number, one in enumerate(of_share) for share in shared.count(number, iter(one))]

    assert sum(share.members for share in counted) == len(kept) == 60
    assert sum(share.digest for share in counted) % DIGESTS == digest(kept)
    with pytest.raises(RunError, match="the manifest of the run 'spring' has changed"):
        shared.write(0, iter(of_share[0]), Share(61, counted[0].digest))
