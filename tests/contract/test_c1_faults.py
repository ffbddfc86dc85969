"""
Every call that the consumer makes to AWS fails once, in every way a call can fail, and nothing is lost.

One scenario touches all of them: yields, failures, retries, dead letters, waking, idempotency, the register of three
slots. It runs once to count its calls, then once for each call and each kind of fault, always to the end.
"""

import pytest

from lanes.testing.calls import InLine, ProcessKilled
from lanes.testing.table import OVERRIDES_READ
from tests.support.memory import Late, aws_error
from tests.support.scenario import Scenario

MAX_ATTEMPTS = 3
POISON = ("poison", "killer")
UNWANTED = "unwanted"

FAULTS = ("refused", "answer lost", "unforeseen", "crash before", "crash after")
REFUSED, UNANSWERED, UNFORESEEN, CRASHED, CRASHED_AFTER = FAULTS
SETTINGS = [(1, False), (1, True), (3, False), (3, True)]


def each_call(*settings):
    """Return the parameters of tests that break every call at night, and every fifth one with every feature on."""
    return [
        *(
            pytest.param(*setting, len(FAULTS), marks=pytest.mark.deep)
            for setting in settings
            if 3 in setting and True in setting and not {"in line", "mappings"} & {*setting}
        ),
        *(pytest.param(*setting, 1, marks=pytest.mark.nightly) for setting in settings),
    ]


def tell(slots, idempotency, *, engine="mappings", beside=None, position=None, fault=None, max_size=None):
    """Tell the scenario, with the call at a position broken, and return it at its end."""
    scenario = Scenario(
        {
            "consumer": {
                "reserved_concurrency": slots,
                "idempotency": idempotency,
                "max_attempts": MAX_ATTEMPTS,
                "function_timeout": 10,
            },
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": 4},
                {"name": "MEDIUM", "threshold": 0, "batch_size": 3},
                {"name": "MAIN", "batch_size": 5},
            ],
        },
        environments=slots,
        seed=5,
        engine=engine,
        beside=beside,
        max_size=max_size,
    )
    _break(scenario.world.calls, position, fault)
    scenario.takes = 0.2
    # A ring stays then, and its slot's records return.
    scenario.may_raise = fault == UNFORESEEN and engine == "pull"
    _send_all(scenario)
    if engine == "mappings" and slots < 6:
        _yield_everything(scenario)
    else:
        _interrupt(scenario)
    scenario.drain()
    return scenario


def _break(calls, position, fault):
    if fault is None:
        return
    error = {
        REFUSED: aws_error(),
        UNANSWERED: aws_error(),
        UNFORESEEN: RuntimeError("unforeseen"),
        CRASHED: ProcessKilled(),
        CRASHED_AFTER: ProcessKilled(),
    }[fault]
    found = lambda _operation, at: error if at == position else None  # noqa: E731 - one of two hooks gets it
    if fault in (UNANSWERED, CRASHED_AFTER):
        calls.lose_if = found
    else:
        calls.break_if = found


def _send_all(scenario):
    fates = {
        1: ("m1", "fail", "ok"),
        2: ("poison", "fail"),
        4: ("m4", "retry", "ok"),
        6: ("unwanted", "dead"),
        7: ("m7", "check"),
        9: ("killer", "crash"),
    }
    for number in range(12):
        scenario.send("MAIN", *fates.get(number, (f"m{number}",)), group=f"g{number % 3}")
    for number in range(4):
        scenario.send("MEDIUM", f"e{number}", "fail" if number == 1 else "ok", "ok", group=f"g{number % 2}")
    for number in range(20):
        scenario.send("HIGH", f"h{number}", *(("fail", "ok") if number == 3 else ("ok",)), group=f"g{number}")


def _yield_everything(scenario):
    """Let every lower lane yield to what HIGH's mapping holds, then place that."""
    held = [scenario.world.receive("HIGH") for _ in range(4)]
    for environment in range(len(scenario.environments)):
        scenario.step("MAIN", environment=environment)
        scenario.step("MEDIUM", environment=environment)
    for number, batch in enumerate(held):
        scenario.invoke("HIGH", batch, environment=number % len(scenario.environments))
    scenario.world.clock.advance(0.3)


def _interrupt(scenario):
    """Send urgent messages from lower handlers, at a checkpoint too, and let another slot run beside one of them."""
    left = {"m3": "u3", "m7": "u7", "e2": "u2", "m4": "u4"}

    def interrupt(message):
        if message.id not in left:
            return
        scenario.send("HIGH", left.pop(message.id), group="u")
        if message.id == "m4" and len(scenario.environments) > 1:
            scenario.step("HIGH", environment=1)
        scenario.world.clock.advance(0.3)

    scenario.in_handler = interrupt


def excused(fault, idempotency, crashes_itself, *, shares_call):
    """
    Return how many runs more than `MAX_ATTEMPTS` poison may have.

    A first attempt that kills its process may go uncounted with idempotency off. A crash or an unforeseen error of the
    consumer's own, just where an attempt is counted, is the same thing: its own, or that of another one of its call.
    """
    own = crashes_itself and not idempotency
    injected = fault in (CRASHED, UNFORESEEN) or (fault == CRASHED_AFTER and shares_call and not idempotency)
    return int(own) + int(injected)


def excused_less(fault):
    """Return how many runs less poison may have: an announced attempt that died before its handler began counts."""
    return int(fault in (CRASHED, CRASHED_AFTER, UNFORESEEN))


def check(scenario, fault, idempotency):
    """Check all that the contract promises whatever happens."""
    scenario.check_kept()
    assert set(scenario.dead()) == {*POISON, UNWANTED}
    assert scenario.dead()[UNWANTED] == "not wanted"
    for name in POISON:
        runs = len(scenario.starts_of(name))
        low = MAX_ATTEMPTS - excused_less(fault)
        more = excused(fault, idempotency, name == "killer", shares_call=scenario.max_size is not None)
        assert low <= runs <= MAX_ATTEMPTS + more, (name, runs)
    if fault in (None, REFUSED, UNANSWERED):
        assert [start.attempt for start in scenario.starts_of("m1")][-1] == 2
    for lane, group in {(sent.lane, sent.group) for sent in scenario.sent}:
        mine = [sent.id for sent in scenario.sent if (sent.lane, sent.group) == (lane, group)]
        done = [name for name in dict.fromkeys(scenario.done) if name in mine]
        assert done == [name for name in mine if name in scenario.done]


@pytest.mark.parametrize(("slots", "idempotency"), SETTINGS)
def test_the_scenario_touches_every_call(slots, idempotency):
    """Or the rest of this file would prove less than it says."""
    scenario = tell(slots, idempotency)

    check(scenario, None, idempotency)
    expected = {
        "GetQueueAttributes",
        "ChangeMessageVisibilityBatch",
        "SendMessage",
        "DeleteMessage",
        "BatchGetItem",
        "PutItem",
        "BatchWriteItem",
        "TransactWriteItems",
        "Query",
        OVERRIDES_READ,
    }
    expected |= {"UpdateItem"} if idempotency or slots > 1 else set()
    expected |= {"DeleteItem"} if idempotency else set()
    expected |= {"GetItem"} if slots > 1 else set()
    assert set(scenario.world.calls.counts) == expected
    assert {start.does for start in scenario.starts} == {"ok", "fail", "retry", "dead", "check", "crash"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("slots", "idempotency", "every"),
    [
        (1, False, 13),
        (3, True, 23),
        *each_call(*SETTINGS),
    ],
)
def test_any_one_call_may_fail(slots, idempotency, every, fault):
    """No loss, order within groups, exact attempts, nothing healthy dead-lettered."""
    calls = len(tell(slots, idempotency).world.calls.log)
    broken = []
    for position in range(FAULTS.index(fault) % every, calls, every):
        scenario = tell(slots, idempotency, position=position, fault=fault)
        try:
            check(scenario, fault, idempotency)
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []


BESIDE = {"in line": InLine, "late": Late}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize(("slots", "idempotency"), SETTINGS)
def test_the_scenario_touches_every_call_of_a_slot(slots, idempotency, beside):
    """Of the pull engine; nothing is parked, and messages are counted where other slots may be free for them."""
    scenario = tell(slots, idempotency, engine="pull", beside=BESIDE[beside]())

    check(scenario, None, idempotency)
    expected = {
        "ReceiveMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "SendMessage",
        "DeleteMessage",
        "BatchGetItem",
        "PutItem",
        OVERRIDES_READ,
    }
    expected |= {"UpdateItem", "DeleteItem"} if idempotency else set()
    expected |= {"SendMessageBatch", "GetQueueAttributes"} if slots > 1 else set()
    assert set(scenario.world.calls.counts) - {"BatchWriteItem"} == expected
    assert {start.does for start in scenario.starts} == {"ok", "fail", "retry", "dead", "check", "crash"}


# Half of a slot's calls and more are receives, most of them looks that find nothing: one of seven fails in each way.
RECEIVES = 7


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("slots", "idempotency", "beside", "every"),
    [
        (1, False, "in line", 13),
        (3, True, "late", 37),
        *each_call(*((*setting, beside) for setting in SETTINGS for beside in BESIDE)),
    ],
)
def test_any_one_call_of_a_slot_may_fail(slots, idempotency, beside, every, fault):
    """The same in the pull engine: receives, deletions and rings too, early and late beside the handler."""
    log = tell(slots, idempotency, engine="pull", beside=BESIDE[beside]()).world.calls.log
    chosen = FAULTS.index(fault)
    places = [at for at, call in enumerate(log) if call != "ReceiveMessage" or at % RECEIVES == chosen]
    broken = []
    for position in places[chosen % every :: every]:
        scenario = tell(
            slots, idempotency, engine="pull", beside=BESIDE[beside](), position=position, fault=fault
        )
        try:
            check(scenario, fault, idempotency)
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("idempotency", "beside", "every"),
    [
        (False, "in line", 31),
        pytest.param(True, "late", 13, marks=pytest.mark.deep),
        *(
            pytest.param(idempotency, beside, 1, marks=pytest.mark.nightly)
            for idempotency in (False, True)
            for beside in BESIDE
        ),
    ],
)
def test_any_one_call_may_fail_where_mappings_start_slots(idempotency, beside, every, fault):
    """Six of them: no invocation yields, each goes on after its batch, and an answer is given whatever fails then."""

    def told(**fields):
        return tell(6, idempotency, engine="mappings", beside=BESIDE[beside](), **fields)

    log, broken = told().world.calls.log, []
    for position in range(FAULTS.index(fault) % every, len(log), every):
        scenario = told(position=position, fault=fault)
        try:
            check(scenario, fault, idempotency)
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("engine", "slots", "idempotency", "every"),
    [
        ("mappings", 1, True, 23),
        ("pull", 3, False, 37),
        *each_call(*((engine, *setting) for engine in ("mappings", "pull") for setting in SETTINGS)),
    ],
)
def test_any_one_call_of_a_batch_handlers_consumer_may_fail(engine, slots, idempotency, every, fault):
    """The same promises for each record of a call."""

    def told(**fields):
        beside = InLine() if engine == "pull" else None
        return tell(slots, idempotency, engine=engine, beside=beside, max_size=10, **fields)

    log, broken = told().world.calls.log, []
    for position in range(FAULTS.index(fault) % every, len(log), every):
        scenario = told(position=position, fault=fault)
        try:
            check(scenario, fault, idempotency)
            assert max(map(len, scenario.calls)) > 1
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []
