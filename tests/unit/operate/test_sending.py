"""Messages as an operator writes them."""

import pytest

from lanes.errors import InvalidMessageError
from lanes.operate.sending import message_of, read_data, read_lines, read_priority


def test_lines_are_read_with_their_numbers():
    """Empty lines count and are skipped."""
    lines = read_lines(
        ['{"kind": "a", "data": [1], "group": "g", "priority": "high"}\n', "\n", '{"kind": "b"}']
    )

    assert [(line.number, line.message.kind) for line in lines] == [(1, "a"), (3, "b")]
    assert (lines[0].message.group, lines[0].message.priority, lines[0].message.data) == ("g", 50, [1])
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
    assert read_data('{"a": 1}') == {"a": 1}
    with pytest.raises(InvalidMessageError, match="quotes"):
        read_data("hello")


def test_a_message_takes_its_own_defaults():
    """An id is made up where none is given."""
    first, second = message_of({"kind": "a", "id": None}), message_of({"kind": "a"})

    assert first.id != second.id
    assert first.priority is None
