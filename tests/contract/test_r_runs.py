"""R1 to R8: a run that is followed to its end, a test for each promise."""

from __future__ import annotations

import pytest

from lanes import Message
from lanes.errors import AwsError, RunError
from lanes.producer.run import seal_chunks
from lanes.runs import MOST_CHUNKS, Counts, End, Head, Mark, State, place
from tests.support.followed import FAULTS, KIND, NAME, OVER, Followed
from tests.support.memory import aws_error


def ids(count):
    return [f"c-{number}" for number in range(count)]


def counted(followed):
    """Return the numbers that a reader sees."""
    found = followed.progress()
    return found.counts.done, found.counts.dead_lettered, found.counts.cancelled, found.left


@pytest.mark.parametrize("members", [0, 1, 90])
def test_r1_the_end_is_announced_after_the_last_end(engine, members):
    """And not before, whether a member is done or dead-lettered."""
    run = Followed(engine, chunks=3)
    run.dies = {"c-3"}
    assert run.send(ids(members))
    seen = []
    run.world.queues.forward = lambda *_, **__: seen.append(run.handled | run.dead)
    while any(queue.counts().visible for queue in run.world.queues.live.values()):
        run.step()
        run.world.clock.advance(1)

    assert seen == [set(ids(members))] * (members > 0), "without members the sender announces it"
    assert run.progress().head.state is State.ENDED


def test_r2_members_are_those_of_the_sealing_session_and_equal_rows_are_one(engine):
    """What an earlier session sent in vain is a stranger; before the seal there is no total, and no end."""
    run = Followed(engine, chunks=2)
    assert not run.send(["lost", *ids(3)], crash=True)
    run.drain()
    before = run.progress()
    assert (before.head.state, before.left, before.counts) == (State.OPEN, None, Counts(unassigned=4))
    assert run.announced == []

    assert run.send([*ids(3), "c-1", "c-0"])
    run.drain()

    after = run.progress()
    assert (after.head.total, after.counts) == (3, Counts(done=3, strangers=1))
    assert [told["total"] for told in run.announced] == [3]


def test_r2_two_kinds_with_one_id_are_two_members():
    """A member is its source, kind and id."""
    followed = Followed("mappings")
    followed.consumer.handler("letter")(lambda _message: None)
    with followed.world.producer().run(NAME, expected=2) as run:
        run.send_many([Message(kind=kind, id="1") for kind in (KIND, "letter")])
    followed.drain()
    assert followed.progress().head.total == 2
    assert counted(followed) == (2, 0, 0, 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_r3_the_end_is_announced_whatever_call_fails(engine, fault):
    """Of the sender, which begins again, of a consumer, and of the process that announces the end."""
    for position in range(200):
        run = Followed(engine, chunks=3)
        run.dies = {"c-1"}
        run.plan = [None] * position + [fault]
        if not run.send(ids(4)) and run.progress().head.state in (State.OPEN, State.SEALING):
            assert run.send(ids(4)), "the same members can be sealed again"
        for _ in range(6):
            run.step()
        reached = not run.plan
        run.drain()
        assert {told["run"] for told in run.announced} == {NAME}, position
        assert counted(run) == (3, 1, 0, 0), position
        if not reached:
            return
    raise AssertionError("the plan was never used up")


@pytest.mark.parametrize("fault", FAULTS)
def test_r3_a_run_that_ends_while_it_is_sealed_is_announced_by_the_next_session(engine, fault):
    """Its members have all ended before; the sender that dies is the one that announces the end."""
    for position in range(60):
        run = Followed(engine, chunks=3)
        assert not run.send(ids(4), crash=True)
        run.drain()
        run.plan = [None] * position + [fault]
        sealed, reached = run.send(ids(4)), not run.plan
        run.plan = []
        assert sealed or run.progress().head.sealed_at or run.send(ids(4)), position
        run.drain()
        assert {told["run"] for told in run.announced} == {NAME}, position
        assert counted(run) == (4, 0, 0, 0), position
        if not reached:
            return
    raise AssertionError("the plan was never used up")


def test_r4_it_is_announced_with_one_id_in_the_lane_that_the_sender_chose(engine):
    """Also if the process dies between the message and its mark: idempotency gives the two one effect."""
    followed = Followed(engine, idempotency=True)
    with followed.world.producer(source="shop").run(NAME, expected=2, on_complete=OVER, priority=60) as run:
        run.send_many(map(followed.message, ids(2)))
    followed.world.runs.announced = lambda _name: (_ for _ in ()).throw(aws_error())
    for _ in range(2):
        followed.step()
    high = followed.world.queues.live["HIGH"]
    bodies = {message.body for message in high._store.messages()}
    del followed.world.runs.announced
    followed.drain()

    assert len(bodies) <= 1
    assert all('"id":"run-ended-statements"' in body for body in bodies)
    assert followed.announced == [
        {"run": NAME, "total": 2, "done": 2, "dead_lettered": 0, "cancelled": 0, "expired": 0}
    ]


def test_r5_the_ends_add_up_and_strangers_are_apart(engine):
    """A message with a mark that another sender wrote changes no count, and a wrong mark is no obstacle."""
    run = Followed(engine, chunks=2)
    run.dies = {"c-2"}
    assert run.send(ids(5))
    run.stray("stranger")
    key = "0" * 16
    wrong = (f"7-{key}/{NAME}", f"2-{key}/{NAME}", f"0-{key}/x", f"1-{key}/" + "n" * 101, f"2/{NAME}", "x")
    for number, mark in enumerate(wrong):
        run.stray(f"c-{number}x", run=mark)
    run.drain()

    assert run.progress().counts == Counts(done=4, dead_lettered=1, strangers=1)
    assert run.progress().head.total == 5


def test_r1_a_member_that_its_lane_does_not_take_has_ended(engine):
    """As a dead letter: its run would stay open for ever."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "kinds": [OVER]}]
    run = Followed(engine, lanes=lanes)
    assert run.send(ids(1))
    run.drain()

    assert (run.dead, counted(run), len(run.announced)) == ({"c-0"}, (0, 1, 0, 0), 1)


@pytest.mark.parametrize("copies", [1, 2])
def test_r6_a_redrive_moves_a_member_to_done_and_the_end_is_not_announced_again(engine, copies):
    """Done outranks the others, also if the copy is handled twice."""
    run = Followed(engine)
    run.dies = {"c-0"}
    assert run.send(ids(3))
    run.drain()
    assert counted(run) == (2, 1, 0, 0)

    run.dies = set()
    run.redrive(copies=copies)
    run.drain()

    assert counted(run) == (3, 0, 0, 0)
    assert len(run.announced) == 1


@pytest.mark.parametrize("dies", [False, True])
def test_r7_without_its_end_recorded_a_message_stays(engine, dies):
    """Neither deleted nor, behind its copy in the dead-letter queue, lost to the count."""
    run = Followed(engine)
    run.dies = {"c-0"} if dies else set()
    assert run.send(ids(1))
    working, run.world.runs.add_end = run.world.runs.add_end, lambda *_: (_ for _ in ()).throw(aws_error())
    for _ in range(3):
        run.step()
        run.world.clock.advance(60)
    waiting = sum(sum(queue.counts()) for queue in run.world.queues.live.values())
    assert (waiting, run.progress().left, run.announced) == (1, 1, [])

    run.world.runs.add_end = working
    run.drain()

    assert counted(run) == (0, 1, 0, 0) if dies else counted(run) == (1, 0, 0, 0)
    assert len(run.announced) == 1


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("idempotency", [False, True])
def test_r7_a_member_without_a_recorded_end_is_handled_once(engine, dies, restarts, idempotency):
    """Its write is refused for a day, as of a full item: one run, one dead letter, few receives."""
    run = Followed(engine, idempotency=idempotency)
    run.dies = {"c-0"} if dies else set()
    assert run.send(ids(3))
    working, refused = run.world.runs.add_end, []

    def add_end(*arguments):
        if arguments[3] == place("shop#statement#c-0", 1)[1]:
            refused.append(arguments)
            raise aws_error()
        return working(*arguments)

    run.world.runs.add_end = add_end
    for _ in range(240):
        run.step()
        if restarts:
            run.restart()
        run.world.clock.advance(360)
    assert sorted(run.calls) == ids(3)
    assert sum(len(queue._store.messages()) for queue in run.world.queues.dead.values()) == dies
    assert 2 * 70 <= len(refused) <= 2 * 120, "doubled up to a quarter of an hour, twice each"
    assert run.progress().left == 1

    run.world.runs.add_end = working
    run.world.clock.advance(1_000)
    run.drain()

    assert counted(run) == ((2, 1, 0, 0) if dies else (3, 0, 0, 0))
    assert sorted(run.calls) == ids(3)


def test_r8_a_message_that_expired_in_its_queue_stays_left_until_the_run_is_closed(engine):
    """No recorded end: the end is not announced, by closing neither."""
    run = Followed(engine)
    assert run.send(ids(2))
    run.world.clock.advance(15 * 24 * 3600)
    run.drain()
    assert (run.progress().head.state, run.progress().left) == (State.SEALED, 2)

    assert run.world.runs.close(NAME, who="ops", why="expired")

    assert (run.progress().head.state, run.progress().left, run.announced) == (State.CLOSED, 2, [])
    assert not run.world.runs.close(NAME, who="ops", why="again")


def test_a_sealed_run_takes_no_other_members():
    """Nor does a name of one; the same members can be sealed again until all chunks are."""
    run = Followed("mappings", chunks=3)
    run.plan = [None] * 6 + ["killed before"]
    assert not run.send(ids(4))
    assert run.progress().head.state is State.SEALING
    assert not run.send(ids(5))
    assert run.send(ids(4))
    with pytest.raises(RunError, match="is sealed; give another name"):
        run.world.producer().run(NAME, expected=1).__enter__()


def test_a_seal_takes_one_chunk_after_the_other():
    """And none after a failure. All chunks of a run for a billion messages, in a queue for the threads, took 23 GB."""
    mark, asked = Mark(NAME, MOST_CHUNKS), []

    def chunks():
        for index in range(mark.chunks):
            asked.append(index)
            if index == 100 or index > 5_000:
                raise aws_error()
            yield index, frozenset()

    run = Followed("mappings")
    table = run.world.runs
    table.open_run(Head(name=NAME, chunks=MOST_CHUNKS))

    with pytest.raises(AwsError):
        seal_chunks(table, mark, chunks(), announce=None)

    assert len(asked) < 150


def test_messages_without_a_run_cost_nothing(engine):
    """No call to the table of runs."""
    run = Followed(engine)
    run.world.send("MAIN", KIND, id="c-0")
    counts = run.world.calls.counts
    run.drain()
    assert run.handled == {"c-0"}
    assert not {"GetItem", "UpdateItem"} & set(counts)


def test_marks_and_places_are_stable():
    """Every sender and every release must agree on them."""
    assert Mark.parse("13-0123456789abcdef/statements-2026-11") == Mark(
        "statements-2026-11", 13, "0123456789abcdef"
    )
    assert Mark("statements-2026-11", 13, "ab").text == "13-ab/statements-2026-11"
    assert place("shop#statement#c-1", 13) == (4, bytes.fromhex("baa894dd523ec435"))
    assert [one.value for one in End] == ["done", "cancelled", "expired", "dead_lettered"]
