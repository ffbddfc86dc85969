"""What is written about lanes.testing is what there is."""

import doctest

import pytest

import lanes.testing
from cdk.queues.lane_queues import MAX_RECEIVES
from lanes.testing import InMemoryLanes, clock, in_memory, on_moto, world
from tests.docs.pages import ROOT, spans

PAGE = ROOT / "docs" / "how-to" / "test-your-code.md"
# For those who look further than the page; the reference has them.
LEFT_OUT = {"new_outbox", "new_producer"}


@pytest.mark.parametrize("module", [clock, in_memory], ids=lambda module: module.__name__)
def test_examples_of_docstrings_do_what_they_say(module):
    """An example that lies is worse than none."""
    failed, attempted = doctest.testmod(module)

    assert attempted
    assert not failed


def test_the_page_names_every_call():
    """Of both kinds of lanes."""
    text = PAGE.read_text(encoding="utf-8")
    calls = {name for name in (*vars(InMemoryLanes), *vars(on_moto.MotoLanes)) if not name.startswith("_")}

    assert {name for name in calls - LEFT_OUT if name not in text} == set()


def test_the_page_names_fixtures_settings_and_marker():
    """As the plugin has them."""
    words = set(spans(PAGE))

    assert {"lanes_in_memory", "lanes_on_moto", "lanes_toml", "lanes_stage", "lanes_config"} <= words


def test_queues_have_the_stacks_last_resort():
    """In memory and on moto: a message that yields for ever ends where it would on AWS."""
    assert world.LAST_RESORT == on_moto.LAST_RESORT == MAX_RECEIVES
    queues = InMemoryLanes()._stack.queues.live.values()
    assert {queue.settings.max_receive_count for queue in queues} == {MAX_RECEIVES}


def test_every_public_name_of_lanes_testing_is_there():
    """Each is found in the module that the table says."""
    for name in lanes.testing.__all__:
        assert getattr(lanes.testing, name).__name__ == name
    assert set(lanes.testing.__all__) <= set(dir(lanes.testing))
    with pytest.raises(AttributeError, match="FakeQueue"):
        lanes.testing.FakeQueue  # noqa: B018 - reading it is the point
