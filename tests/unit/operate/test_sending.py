"""Messages as an operator writes them."""

from datetime import UTC, datetime, timedelta

import pytest

from lanes.config import LanesConfig
from lanes.errors import InvalidMessageError, SendError
from lanes.message import JsonText
from lanes.operate.send import BATCH, Sending, message_of, read_data, read_lines, read_priority
from lanes.producer.outgoing import PartialSendError, SentMessage, UnsentMessage


class Lane:
    """Sends to one lane; refuses messages by their ids, and is interrupted at some call."""

    def __init__(self, *, refused=(), interrupted_at=None):
        self.calls = []
        self._refused = refused
        self._interrupted_at = interrupted_at

    def send_many(self, messages, *, not_before=None):
        """Send what is not refused."""
        self.calls.append(len(messages))
        if len(self.calls) == self._interrupted_at:
            raise KeyboardInterrupt
        sent = [
            SentMessage(id=one.id, lane="MEDIUM", message_id=f"sqs-{one.id}", sequence_number="1")
            for one in messages
            if one.id not in self._refused
        ]
        failed = [
            UnsentMessage(message=one, lane="MEDIUM", code="No", reason="no")
            for one in messages
            if one.id in self._refused
        ]
        if failed:
            raise PartialSendError(sent=sent, failed=failed)
        return sent


def sending(count):
    """So many lines, an empty one before each."""
    lines = (f'\n{{"kind": "a", "id": "m{number}"}}' for number in range(count))
    return Sending(read_lines("\n".join(lines).split("\n")), config=LanesConfig())


def test_lines_are_read_with_their_numbers():
    """Empty lines count and are skipped."""
    lines = read_lines(
        ['{"kind": "a", "data": [1.10], "group": "g", "priority": "high"}\n', "\n", '{"kind": "b"}']
    )

    assert [(line.number, line.message.kind) for line in lines] == [(1, "a"), (3, "b")]
    assert (lines[0].message.group, lines[0].message.priority, lines[0].message.data) == ("g", 50, "[1.10]")
    assert lines[1].message.source == "lanes send"


def test_everything_that_is_wrong_is_told_at_once_by_its_line():
    """Nothing is sent in that case."""
    lines = ['{"kind": "a", "grup": "g"}', "{", "[1]", '{"data": 1}', '{"kind": "a b"}', '{"kind": "a"}']

    with pytest.raises(InvalidMessageError) as caught:
        read_lines(lines)

    text = str(caught.value)
    assert "line 1: unknown key 'grup'; did you mean 'group'?" in text
    assert "line 2: no JSON" in text
    assert "line 3: one JSON object is needed" in text
    assert "line 4: kind is missing" in text
    assert "line 5: kind is 'a b'" in text
    assert "line 6" not in text


def test_a_file_full_of_errors_is_cut_short():
    """Twenty are enough to see what is wrong."""
    with pytest.raises(InvalidMessageError, match="and 30 more"):
        read_lines(["{"] * 50)


@pytest.mark.parametrize(("given", "expected"), [(7, 7), ("-100", -100), ("critical", 100), ("BULK", -100)])
def test_priorities_are_numbers_or_names(given, expected):
    """In small or capital letters."""
    assert read_priority(given) == expected


@pytest.mark.parametrize("given", ["urgent", True, 1.5, ""])
def test_other_priorities_are_refused(given):
    """The error names those that there are."""
    with pytest.raises(InvalidMessageError, match="CRITICAL"):
        read_priority(given)


def test_data_has_to_be_json():
    """A text without quotes is the usual mistake."""
    assert read_data('{"a": 1.10}') == JsonText('{"a": 1.10}')
    with pytest.raises(InvalidMessageError, match="quotes"):
        read_data("hello")


def test_a_message_takes_its_own_defaults():
    """An id is made up where none is given."""
    first, second = message_of({"kind": "a", "id": None}), message_of({"kind": "a"})

    assert first.id != second.id
    assert first.priority is None


def test_thousands_of_lines_are_sent_in_parts_and_counted_by_lane():
    """Each part is reported."""
    lines, lane, reported = sending(2 * BATCH + 1), Lane(), []

    lines.run(lane, report=reported.append)

    assert lane.calls == [BATCH, BATCH, 1]
    assert reported == [BATCH, 2 * BATCH, 2 * BATCH + 1]
    assert lines.by_lane() == [{"lane": "MEDIUM", "messages": 2 * BATCH + 1, "sent": 2 * BATCH + 1}]


def test_what_was_not_sent_is_told_by_its_line_and_the_rest_is_not_tried():
    """What was sent beside it is known too."""
    lines, lane = sending(BATCH + 2), Lane(refused={"m1"})

    with pytest.raises(SendError) as caught:
        lines.run(lane, report=lambda _: None)

    said = str(caught.value)
    assert f"{BATCH - 1} of {BATCH + 2} were sent" in said
    assert "line 4: no" in said
    assert f"lines {2 * BATCH + 2} to {2 * BATCH + 4} were not tried" in said
    rows = lines.rows()
    assert [rows[0]["message_id"], rows[0]["error"]] == ["sqs-m0", None]
    assert [rows[1]["message_id"], rows[1]["error"], rows[1]["line"]] == [None, "no", 4]
    assert rows[-1]["error"] == "not tried, or not known"


def test_what_an_interrupted_file_has_sent_is_known():
    """Whole parts of it."""
    lines, lane = sending(BATCH + 2), Lane(interrupted_at=2)

    with pytest.raises(KeyboardInterrupt):
        lines.run(lane, report=lambda _: None)

    assert lines.by_lane() == [{"lane": "MEDIUM", "messages": BATCH + 2, "sent": BATCH}]


def test_defaults_apply_to_lines_without_their_own():
    """Also to a null, which is a key left out."""
    lines = ['{"kind": "a", "priority": 70}', '{"kind": "a", "priority": null, "group": "own"}']

    found = [line.message for line in read_lines(lines, {"priority": "BULK", "group": "g"})]

    assert [(one.priority, one.group) for one in found] == [(70, "g"), (-100, "own")]


def test_a_time_after_which_no_handler_gets_it_is_a_time_or_a_duration():
    """As people type it: from now, or with a zone."""
    before = datetime.now(UTC)
    soon = message_of({"kind": "a", "expires": "15m"}).expires

    assert before <= soon - timedelta(minutes=15) <= datetime.now(UTC)
    at = message_of({"kind": "a", "expires": "2026-01-31T12:00Z"}).expires
    assert at == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert message_of({"kind": "a", "expires": None}).expires is None


@pytest.mark.parametrize("expires", ["soon", "2026-01-31T12:00", 15, True])
def test_another_time_is_refused_by_name(expires):
    """Without a zone it would be a guess, a number could be a time or a duration."""
    with pytest.raises(
        InvalidMessageError, match=r"expires is .*; a time with a zone such as .* 15m is needed"
    ):
        message_of({"kind": "a", "expires": expires})


def test_a_duration_that_no_calendar_has_is_refused_by_name():
    """It would end after the year 9999."""
    with pytest.raises(
        InvalidMessageError, match=r"expires is 9999999 days.* from now, outside the years .*; omit it"
    ):
        message_of({"kind": "a", "expires": "9999999d"})
