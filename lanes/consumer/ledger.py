"""
The ledger: one entry for each message that was received more than once, the table that keeps it, and its cache.

SQS counts receives, whatever their outcome. The ledger distinguishes failed attempts, yields, and untouched returns.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.values import value
from lanes.errors import AwsError
from lanes.metrics import Described

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.consumer.records import RawRecord

T = TypeVar("T")

# AWS calls the stamp approximate (ApproximateFirstReceiveTimestamp), so a smaller difference proves nothing.
NEXT_GENERATION = 1.0
"""Seconds between two first receives, by SQS's own stamps, from which the message was redriven in between."""


class Ending(enum.StrEnum):
    """How a receive of a record ended. The ledger stores all but the last."""

    NONE = "none"  # no receive is known
    STARTED = "started"  # an attempt began and never ended: it crashed, timed out, or still runs
    FAILED = "failed"  # the handler failed; another attempt follows
    YIELDED = "yielded"  # a higher lane, or another tenant, had priority
    RETURNED = "returned"  # untouched
    CRASHED = (
        "crashed"  # untouched, for a pause after an attempt that killed its process; then it is tried alone
    )
    DONE = "done"  # the handler succeeded, now or before; or it was cancelled, or sent on; stored if it stays
    DEAD_LETTERED = "dead_lettered"


class Cause(Described):
    """Why a record was received: the dimension of the metric `Receives`."""

    FIRST = "first", "its first receive"
    AFTER_YIELD = "after_yield", "it had yielded"
    AFTER_FAILURE = "after_failure", "an attempt had failed"
    AFTER_RETURN = (
        "after_return",
        "it had returned without an attempt, or its batch had been set aside for long",
    )
    AFTER_CRASH = "after_crash", "an attempt had begun and never ended"
    UNKNOWN = (
        "unknown",
        "throttled by Lambda (mapped engine), lost with SQS's answer (pull engine), or a first attempt crashed",
    )


class Park(enum.StrEnum):
    """Why a record is invisible on purpose; neither kind waits for a slot."""

    YIELD = "yield"  # may be woken as soon as the lanes above have no backlog
    REST = "rest"  # a backoff, or a yield delay that limits receives: returns by itself only


@value(frozen=True, slots=True, kw_only=True)
class Blocking:
    """
    The group that a message blocks, since its attempts are used up (`on_exhausted`), and the message for operators.

    Attributes:
        since: epoch seconds of the attempt that used them up.

    """

    group: str
    kind: str
    id: str
    since: float


@value(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    The ledger's entry of one message in one lane.

    Attributes:
        attempts: failed attempts, and a running one if it was written ahead.
        noted_receive: receive count at the last write; one less than now means that the last receive is explained.
        given_up: the dead letter's reason, once the handler asked for it or the dead letter could not be sent.
        unknown_since: epoch seconds since when no handler is known for its kind; 0 if there is one.
        away_since: epoch seconds since when its handler finds its resource away; 0 if it never did.
        suspect: a receive ended without explanation once, so attempts are written ahead.
        noted_at: epoch seconds of the last write, by the function's clock.
        first_received_at: epoch seconds of the first receive of this stay in the queue, by SQS's clock.
        end: the end (`lanes.runs.End`) that is not recorded yet, of a message that is finished but for that.
        blocking: the group that it blocks; None if it does not.
        park: why the record is invisible, until `parked_until` (epoch seconds); `batch` names those parked together.

    """

    lane: str
    message_id: str
    attempts: int = 0
    yields: int = 0
    returns: int = 0
    ending: Ending = Ending.NONE
    noted_receive: int = 0
    unknown_since: float = 0.0
    away_since: float = 0.0
    suspect: bool = False
    last_error: str = ""
    given_up: str = ""
    noted_at: float = 0.0
    first_received_at: float = 0.0
    end: str = ""
    blocking: Blocking | None = None
    park: Park | None = None
    parked_until: float = 0.0
    batch: str = ""
    receipt_handle: str = ""

    def cause_of(self, record: RawRecord) -> Cause:
        """Return why `record` was received again."""
        if record.receive_count - 1 != self.noted_receive:
            return Cause.UNKNOWN
        return _CAUSES[self.ending]

    def is_of_earlier_generation(self, record: RawRecord) -> bool:
        """Whether the entry is older than the record's stay in the queue: a redriven message starts again."""
        # Only stamps of SQS are compared: the function's clock may be wrong.
        known = self.first_received_at
        return known > 0 and record.first_received_at > known + NEXT_GENERATION

    def is_outdated_by(self, stored: Entry) -> bool:
        """Whether the table has a later receive, or, for the start of an attempt, the end of the same one."""
        if stored.first_received_at < self.first_received_at - NEXT_GENERATION:
            return False
        is_over = self.ending is Ending.STARTED and stored.ending is not Ending.STARTED
        return stored.noted_receive > self.noted_receive - is_over

    def seen_again(self, record: RawRecord) -> Entry:
        """Return the entry at this receive: no longer parked, and suspect for good if nothing explains the receive."""
        unexplained = self.cause_of(record) in (Cause.UNKNOWN, Cause.AFTER_CRASH)
        return dataclasses.replace(
            self,
            suspect=self.suspect or unexplained,
            first_received_at=record.first_received_at,
            park=None,
            parked_until=0.0,
            batch="",
            receipt_handle="",
        )


_CAUSES = {
    Ending.NONE: Cause.UNKNOWN,
    Ending.STARTED: Cause.AFTER_CRASH,
    Ending.FAILED: Cause.AFTER_FAILURE,
    Ending.YIELDED: Cause.AFTER_YIELD,
    Ending.RETURNED: Cause.AFTER_RETURN,
    Ending.CRASHED: Cause.AFTER_RETURN,
    Ending.DONE: Cause.AFTER_RETURN,
}


class Effect(enum.Enum):
    """The state of a message's effect when a consumer claims it."""

    BEGUN = enum.auto()  # claimed
    DONE = enum.auto()  # done within the idempotency window
    ELSEWHERE = enum.auto()  # another message of the same id is being handled
    TWICE = enum.auto()  # another delivery of the same message is being handled

    @classmethod
    def held_by(cls, holder: str, owner: str) -> Effect:
        """Return the state of an effect that `holder` has claimed, for another owner."""
        return cls.TWICE if holder.partition("/")[0] == owner.partition("/")[0] else cls.ELSEWHERE


class Claim(NamedTuple):
    """The answer to a claim: the state of the effect, the lane in which it was done, and the end of another's claim."""

    effect: Effect
    done_in: str = ""
    until: float = 0.0


class Ledger(Protocol):
    """The table behind the consumer. Every method raises `AwsError`; only the client retries."""

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the existing entries by message id, in one consistent read."""

    def note(self, entries: Sequence[Entry]) -> None:
        """
        Write whole entries of records that this invocation holds, in one request for up to 25; a single one as `amend`.

        Absolute values, so that a call with a lost answer can be repeated: an attempt is never counted twice.
        """

    def amend(self, entries: Sequence[Entry]) -> None:
        """Write the entries that are not outdated (`Entry.is_outdated_by`)."""

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Record that entries are no longer parked; False, with none changed, if any was received or woken since."""

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return the records of a lane parked until later than `after`, the earliest to return first."""

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Claim:
        """Claim the right to run the effect of an id until a time; an owner is a message id, a slash, a delivery."""

    def finish_effect(self, effect_id: str, *, owner: str, lane: str, now: float, keep_until: float) -> None:
        """Record that the effect was done in a lane."""

    def effect_done_at(self, effect_id: str) -> float:
        """Return when an effect was done last, in epoch seconds; 0 if that is not known."""

    def swap_rate(self, pattern: str, known: str, new: str) -> str | None:
        """Replace the state of a rate, empty for none, if it is the known one; else return the one that is stored."""

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give the claim back after an attempt that failed or yielded."""


MOST_CACHED = 20_000
"""Entries without a park that one environment keeps: 18 fields each, about 10 MB."""

# With one slot only records parked by an earlier environment can be missing; after a yield these return within 15 s
# by default.
TRUSTED = 1.0
"""Seconds for which a reading of a backlog is trusted, and one of parked records: 15 times that without peers."""

# AWS: a global index follows its table with a delay (DynamoDB developer guide, "Global secondary indexes").
INDEX_LAG = 2 * TRUSTED
"""Seconds for which this environment's own writes count more than the ledger's index."""


@dataclasses.dataclass(slots=True, eq=False)
class CachedLedger:
    """
    The ledger with the one cache of an environment: the entries that it wrote or read last.

    An entry written at receive 4 is complete at receive 5: no other environment had the record in between.
    """

    table: Ledger
    clock: Callable[[], float]
    _entries: OrderedDict[tuple[str, str], Entry] = dataclasses.field(default_factory=OrderedDict)
    _parked: dict[str, dict[str, Entry]] = dataclasses.field(default_factory=lambda: defaultdict(dict))
    _parked_read_at: dict[str, float] = dataclasses.field(default_factory=dict)
    _cut: set[str] = dataclasses.field(default_factory=set)
    _unwritten: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    _owed: dict[tuple[str, str], Entry] = dataclasses.field(default_factory=dict)

    def entries_of(self, lane: str, records: Sequence[RawRecord]) -> dict[str, Entry]:
        """Return the entry of each record by message id, a new one for a first receive; raises `AwsError`."""
        known: dict[str, Entry] = {}
        missing: list[str] = []
        for record in records:
            if record.receive_count <= 1:
                continue
            self._parked[lane].pop(record.message_id, None)
            # Taken out: an entry explains the one receive after it.
            entry = self._entries.pop((lane, record.message_id), None)
            if entry is not None and entry.noted_receive == record.receive_count - 1:
                known[record.message_id] = entry
            else:
                # Another environment may have written it.
                missing.append(record.message_id)
        if missing:
            self._pay()
            known |= twice(lambda: self.table.read(lane, missing))
        return {one.message_id: _entry_at(one, lane, known.get(one.message_id)) for one in records}

    def write(self, entries: Sequence[Entry], *, amends: bool = False) -> None:
        """Write entries and cache them, or amend those of records that may be with another slot; raises `AwsError`."""
        # Cached before the call: an entry that can't be written still counts here.
        for entry in entries:
            self.remember(entry)
            self._unwritten.discard((entry.lane, entry.message_id))
            self._owed.pop((entry.lane, entry.message_id), None)
        try:
            (self.table.amend if amends else self.table.note)(entries)
        except AwsError:
            # But for an attempt that has not begun, since it must not.
            ended = [entry for entry in entries if entry.ending is not Ending.STARTED]
            self._owe({(entry.lane, entry.message_id): entry for entry in ended})
            raise
        self._pay()

    def _pay(self) -> None:
        """
        Write some of the entries that could not be written, now that the table may be there again.

        Until then other environments count a yield of those records as an attempt, and a failed attempt never.
        """
        # Of 4,800 messages with four outages of 2 to 20 s, 37 attempts had a wrong number without this, and 16 with it.
        if not self._owed:
            return
        due = dict(itertools.islice(self._owed.items(), LARGEST_BATCH))
        for key in due:
            del self._owed[key]
        try:
            self.table.amend(list(due.values()))
        except AwsError:
            self._owe(due)

    def _owe(self, entries: Mapping[tuple[str, str], Entry]) -> None:
        """Keep entries that could not be written, as many as are cached."""
        self._owed |= entries
        while len(self._owed) > MOST_CACHED:
            del self._owed[next(iter(self._owed))]

    def remember(self, entry: Entry) -> None:
        """Cache an entry without writing it."""
        key = entry.lane, entry.message_id
        self._unwritten.add(key)
        if entry.park is None:
            self._parked[entry.lane].pop(entry.message_id, None)
        else:
            self._parked[entry.lane][entry.message_id] = entry
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > MOST_CACHED:
            self._unwritten.discard(self._entries.popitem(last=False)[0])

    def lanes_with_parked(self, published: Mapping[str, float]) -> set[str]:
        """Return the lanes with records parked now: those of this environment, and of others until published times."""
        now = self.clock()
        # The first entry is enough for most lanes, and there may be thousands.
        own = {
            lane
            for lane, known in self._parked.items()
            if any(entry.parked_until > now for entry in known.values())
        }
        return own | {lane for lane, until in published.items() if until > now}

    def parked(self, lane: str) -> list[Entry]:
        """Return the records of a lane that are parked now, as far as this environment knows."""
        now, known = self.clock(), self._parked[lane]
        for entry in [entry for entry in known.values() if entry.parked_until <= now]:
            del known[entry.message_id]
        return list(known.values())

    def read_parked(self, lane: str, *, alone: bool = False, limit: int | None = None) -> None:
        """
        Read up to `limit` parked records of a lane unless that was done within a second; raises `AwsError`.

        `alone` if the ledger has no more than this environment wrote, but for the records of one before it.
        """
        now = self.clock()
        # A reading with a time in the future has no known age: the clock was set back.
        is_fresh = 0 <= now - self._parked_read_at.get(lane, float("-inf")) <= TRUSTED * (15 if alone else 1)
        # A limited reading proves nothing once all of its entries are woken.
        if is_fresh and (lane not in self._cut or self.parked(lane)):
            return
        entries = list(self.table.parked(lane, after=now, limit=limit))
        is_cut = limit is not None and len(entries) >= limit
        (self._cut.add if is_cut else self._cut.discard)(lane)
        if is_cut and entries[0].batch != entries[-1].batch:
            # Half a batch would leave its groups blocked.
            entries = [entry for entry in entries if entry.batch != entries[-1].batch]
        recent = {
            key: entry
            for key, entry in self._parked[lane].items()
            if now - entry.noted_at <= INDEX_LAG or (lane, key) in self._unwritten
        }
        self._parked[lane] = {entry.message_id: entry for entry in entries} | recent
        self._parked_read_at[lane] = now

    def expire_parked(self, lane: str) -> None:
        """Have the next `read_parked` of a lane read the table."""
        self._parked_read_at.pop(lane, None)

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Record that entries are no longer parked; return False, and change none, as `Ledger.unpark` does."""
        written = [entry for entry in entries if (entry.lane, entry.message_id) not in self._unwritten]
        unparked = not written or self.table.unpark(written)
        for entry in entries:
            self._parked[entry.lane].pop(entry.message_id, None)
            if not unparked:
                # Another environment was faster with one of them, and perhaps with more that are cached here.
                self._parked[entry.lane].clear()
                self.expire_parked(entry.lane)
        return unparked


def twice(call: Callable[[], T]) -> T:
    """Make a call, and once more if it fails; raises the second `AwsError`."""
    try:
        return call()
    except AwsError:
        return call()


def _entry_at(record: RawRecord, lane: str, known: Entry | None) -> Entry:
    if known is None or known.is_of_earlier_generation(record):
        known = Entry(lane=lane, message_id=record.message_id, first_received_at=record.first_received_at)
    return known if record.receive_count == 1 else known.seen_again(record)
