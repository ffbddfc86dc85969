"""The examples in the docstrings of the public names."""

import doctest

import pytest

from lanes import message, message_filter, priority, trace_context
from lanes.config import model
from lanes.outbox import filter as entry_filter

MODULES = [model, message, message_filter, priority, trace_context, entry_filter]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_docstrings_do_what_they_say(module):
    """An example that lies is worse than none."""
    failed, attempted = doctest.testmod(module)

    assert attempted
    assert not failed
