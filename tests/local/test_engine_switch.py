"""A change of engine in the middle of a flood: nothing is lost, and no more handlers are at work than slots."""

from pathlib import Path

import pytest

from local.deploy import CdkApp
from local.platform import Platform
from tests.support.flood import AHEAD, PIECE, STACK, Flood, Work, left, outliving_mappings, total
from tests.support.waiting import SLACK, until

APP = Path(__file__).with_name("switching_app")
SLOTS = 2


def app(engine):
    """Give the app with an engine."""
    return CdkApp(directory=APP, context={"engine": engine, "slots": str(SLOTS)})


@pytest.fixture(scope="module")
def work():
    """The work of the handlers."""
    return Work()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, work):
    """The stack with mappings."""
    build = tmp_path_factory.mktemp("build")
    with Platform(app=app("mappings"), on_line=work, build_directory=build, slack=SLACK) as running:
        yield running


@pytest.mark.deep
def test_engines_are_switched_in_the_middle_of_a_flood(platform, work, monkeypatch):
    """From mappings to pull and back; the old mappings outlive each switch, and their events reach the new engine."""
    for name, value in platform.variables().items():
        monkeypatch.setenv(name, value)

    with Flood(platform.endpoint_url, work) as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform) as of_lanes:
            platform.deploy(app("pull"))
            assert "BellQueueUrl" in platform.outputs[STACK]
            before = total(of_lanes, "invokes")
            work.wait_for_more(AHEAD)
            until(lambda: total(of_lanes, "invokes") > before, why="no old batch reached the pull engine")
        work.wait_for_more(AHEAD)
        with outliving_mappings(platform) as of_bell:
            platform.deploy(app("mappings"))
            assert "BellQueueUrl" not in platform.outputs[STACK]
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: len(handled) == len(flood.sent))
    until(lambda: left(platform) == 0)

    assert work.handled.keys() == {message.id for message in flood.sent}
    assert work.most_at_once() == SLOTS
    for ids in flood.groups().values():
        assert sorted(ids, key=work.handled.__getitem__) == ids
    assert total([*of_lanes, *of_bell], "errors") == 0
