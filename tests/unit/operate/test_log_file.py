"""The function's log in files."""

import json

import pytest

from lanes.errors import ConfigurationError
from lanes.operate.log import LogFiles

EARLY, LATE = "2027-01-15 08:00:00,250+0000", "2027-01-15 08:00:02,000+0000"
AT = 1_800_000_000.0


@pytest.fixture
def file(tmp_path):
    """A file with two events, something between them, and a line that was cut."""
    path = tmp_path / "function.log"
    lines = [
        json.dumps({"event": "one", "timestamp": EARLY}),
        "RequestId: 5af6 Error: Task timed out after 30.00 seconds",
        json.dumps({"event": "two", "timestamp": LATE}),
        '{"event": "cut',
        '{"timestamp": 7}',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_lines_have_the_times_written_in_them_or_before_them(file):
    """What Lambda itself says has no time of its own there."""
    lines = list(LogFiles([file]).lines(since=0))

    assert [line.at - AT for line in lines] == [0.25, 0.25, 2.0, 2.0, 2.0]
    assert len({line.id for line in lines}) == 5


def test_lines_of_a_time_that_contain_a_text(file):
    """As of CloudWatch."""
    logs = LogFiles([file])

    assert [line.at - AT for line in logs.lines(since=AT + 1, containing=["event"])] == [2.0, 2.0]
    assert [line.at - AT for line in logs.lines(since=0, until=AT + 1, containing=["event"])] == [0.25]


def test_several_files_are_one_log(file):
    """A line of each has an id of its own."""
    other = file.with_name("other.log")
    other.write_bytes(file.read_bytes())

    lines = list(LogFiles([file, other]).lines(since=0, containing=["timed"]))

    assert len({line.id for line in lines}) == 2


def test_a_file_that_is_not_there_is_told(tmp_path):
    """By its name."""
    with pytest.raises(ConfigurationError, match=r"none\.log"):
        list(LogFiles([tmp_path / "none.log"]).lines(since=0))
