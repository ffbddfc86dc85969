"""Filters of messages: which select all of them, and which are refused."""

import pytest

from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter, first_like, is_like


@pytest.mark.parametrize("how", [{}, {"exact": True}])
def test_a_way_to_compare_is_no_condition(how):
    """Without a text to compare it selects every message."""
    assert MessageFilter(**how).chooses_all
    assert MessageFilter(**how).describe() == "everything"
    assert not MessageFilter(kind="k", **how).chooses_all


@pytest.mark.parametrize(("wanted", "named"), [({"run": ""}, "run"), ({"ids": ("a", "")}, "an id")])
def test_an_empty_name_is_refused(wanted, named):
    """A script's unset variable is no choice."""
    with pytest.raises(ConfigurationError, match=f"{named} is empty; leave it out for any"):
        MessageFilter(**wanted)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("mail", "mail", True),
        ("mail", "mail.sent", False),
        ("mail*", "mail", True),
        ("*.sent", "mail.\nsent", False),
        ("*sent", "mail.\nsent", True),
        ("a*c*e", "abcde", True),
        ("a*c*e", "abcdef", False),
        ("Mail", "mail", False),
        ("a?", "ab", False),
        ("a?", "a?", True),
        ("[ab]", "a", False),
        ("[!a][b-c]*", "[!a][b-c]d", True),
        ("a\\*", "a\\b", True),
        ("(a|b)+.", "(a|b)+.", True),
        ("", "", True),
        ("*", "", True),
    ],
)
def test_a_star_matches_any_characters_and_all_others_themselves(pattern, text, matches):
    """A dot or a bracket in a group is one."""
    assert is_like(text, pattern) is matches
    assert MessageFilter(group=pattern).matches_group(text) is matches


def test_the_first_pattern_that_matches_decides():
    """As an operator reads the table, from top to bottom."""
    assert first_like("mail.sent", ["order", "mail.*", "*"]) == "mail.*"
    assert first_like("mail", ["mail.*"]) is None


def test_no_text_takes_long():
    """Senders choose the texts: a search that tries all ways would take years for these."""
    assert not is_like("a" * 10_000, "*a" * 60 + "*b")
