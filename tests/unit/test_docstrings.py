"""The examples in the docstrings of the public names."""

import doctest

import pytest

from lanes import config, message, priority, values


@pytest.mark.parametrize("module", [config, message, priority, values], ids=lambda module: module.__name__)
def test_examples_of_docstrings_do_what_they_say(module):
    """An example that lies is worse than none."""
    failed, attempted = doctest.testmod(module)

    assert attempted
    assert not failed
