"""Filters of messages: which select all of them, and which are refused."""

import pytest

from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter


@pytest.mark.parametrize("how", [{}, {"exact": True}, {"regex": True}])
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
