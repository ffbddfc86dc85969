"""Decoders: bodies of other programs become messages before any part of the consumer looks at them."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.consumer.annotations import check_takes
from lanes.consumer.records import RawRecord
from lanes.consumer.signals import text_of
from lanes.encoding import program_source
from lanes.errors import DuplicateHandlerError, MessageDecodeError
from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.consumer.records import Batch

    Decoder = Callable[[RawRecord], "Decoded | None"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """
    What a decoder reads in a body that is not a CloudEvent; the group stays that of the SQS message.

    Attributes:
        kind: selects the handler.
        data: any value that JSON can represent.
        id: of the message; by default the id that SQS gave it, which a repeat of the sender does not share.
        priority: of the message; None counts as NORMAL. It stays in its lane.
        source: origin of the message; by default the name of this program.
        traceparent: W3C trace context.
        expires: no handler gets the message after this time, with a time zone.

    Example:
        >>> Decoded(kind="order.placed", data={"order": 7}, id="order-7", priority=50).id
        'order-7'

    """

    kind: str
    data: Any = None
    id: str | None = None
    priority: int | None = None
    source: str | None = None
    traceparent: str | None = None
    expires: datetime | None = None

    def body_for(self, record: RawRecord) -> str:
        """Write the message for a record; raises `InvalidMessageError` and `MessageTooLargeError`."""
        return Message(
            kind=self.kind,
            data=self.data,
            id=record.message_id if self.id is None else self.id,
            priority=self.priority,
            source=program_source() if self.source is None else self.source,
            time=datetime.fromtimestamp(record.sent_at, UTC),
            traceparent=self.traceparent,
            expires=self.expires,
        ).to_body()


class Decoders:
    """The decoders of one consumer: one for each lane that has one, and one for all others."""

    def __init__(self) -> None:
        self._by_lane: dict[str | None, Decoder] = {}
        self._report: Callable[[RawRecord], object] | None = None

    def reporting_to(self, report: Callable[[RawRecord], object] | None) -> Decoders:
        """Return the same decoders, with each record that one of them made a message of given to `report`."""
        other = Decoders()
        other._by_lane, other._report = self._by_lane, report
        return other

    def add(self, function: Decoder, *, lane: str | None) -> None:
        """Register the decoder of a lane; None is for the lanes without one; raises `TypeError` for anything else."""
        if lane is not None and not isinstance(lane, str):
            raise TypeError(
                f"decoder takes the name of a lane, as in @consumer.decoder(lane='HIGH'), not {lane!r}"
            )
        if (
            not callable(function)
            or inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
        ):
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(f"{name} is not a decoder. Use a plain function that returns a Decoded")
        check_takes(function, RawRecord)
        if lane in self._by_lane:
            raise DuplicateHandlerError(kind="raw bodies" if lane is None else f"raw bodies of {lane}")
        self._by_lane[lane] = function

    @property
    def hint(self) -> str:
        """The lanes that alone have a decoder, for the reason of a body that none has read; empty without them."""
        lanes = [] if None in self._by_lane else sorted(filter(None, self._by_lane))
        return f" (only these lanes have a decoder: {', '.join(lanes)})" if lanes else ""

    def decoded(self, batch: Batch) -> Batch:
        """Return a batch in which other programs' bodies are messages, as far as its lane's decoder makes some."""
        decoder = self._by_lane.get(batch.lane.name) or self._by_lane.get(None)
        if decoder is None:
            return batch
        records = [_decoded(record, decoder) for record in batch.records]
        for before, after in zip(batch.records, records, strict=True):
            if self._report is not None and after.body != before.body:
                self._report(after)
        return dataclasses.replace(batch, records=records)


def _decoded(record: RawRecord, decoder: Decoder) -> RawRecord:
    try:
        Message.from_body(record.body)
    except MessageDecodeError:
        pass
    else:
        return record
    try:
        body = _body_by(decoder, record)
    except KeyboardInterrupt:  # it ends the process
        raise
    except BaseException as error:  # noqa: BLE001 - the border to user code: the record becomes a dead letter
        name = getattr(decoder, "__qualname__", repr(decoder))
        problem = f"its decoder {name} failed: {type(error).__name__}: {text_of(error)}"
        return dataclasses.replace(record, problem=problem)
    return record if body is None else dataclasses.replace(record, body=body)


def _body_by(decoder: Decoder, record: RawRecord) -> str | None:
    found = decoder(record)
    if found is None:
        return None
    if not isinstance(found, Decoded):
        raise TypeError(f"a decoder returns a Decoded or None, not {type(found).__name__}")
    return found.body_for(record)
