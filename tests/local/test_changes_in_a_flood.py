"""A change of engine, slots, lanes, times or code in the middle of a flood keeps C1, C2, C4 and C10."""

import itertools
import json
import shutil
from pathlib import Path

import pytest

from local.deploy import ROOT, CdkApp
from local.platform import Platform
from tests.support.command import Typed
from tests.support.flood import AHEAD, PIECE, STACK, Flood, Work, left, outliving_mappings, total
from tests.support.waiting import SLACK, until

APP = Path(__file__).with_name("switching_app")
NEW_CODE = "new_code"
HIGH, MAIN = {"name": "HIGH", "threshold": 50}, {"name": "MAIN"}
MEDIUM = {"name": "MEDIUM", "threshold": 0}
CLOSING = {**MEDIUM, "closing": True}
LONGER = [{**HIGH, "visibility_timeout": 180}, {**MAIN, "visibility_timeout": 240, "batch_size": 5}]

# The contexts before and after the change.
CHANGES = {
    "more slots": ({"slots": "2"}, {"slots": "3"}),
    "fewer slots": ({"slots": "3"}, {"slots": "2"}),
    "a lane is added": ({"lanes": [HIGH, MAIN]}, {"lanes": [HIGH, MEDIUM, MAIN]}),
    "a lane is closing": ({"lanes": [HIGH, MEDIUM, MAIN]}, {"lanes": [HIGH, CLOSING, MAIN]}),
    "other times": ({"lanes": LONGER, "function_timeout": "20s"}, {}),
    "other code": ({}, {"function_folder": NEW_CODE}),
}
DEFAULTS = {"slots": "2", "lanes": [HIGH, MAIN]}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def work():
    """The work of the handlers."""
    return Work()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, work):
    """A stack with mappings; each test but the first deploys it anew."""
    build = tmp_path_factory.mktemp("build")
    first = CdkApp(directory=APP, context={"engine": "mappings", "slots": DEFAULTS["slots"]})
    with Platform(app=first, on_line=work, build_directory=build, slack=SLACK) as running:
        yield running


@pytest.fixture
def new_code(tmp_path):
    """The sample function with other code."""
    folder = shutil.copytree(ROOT / "lambdas" / "consumer", tmp_path / "consumer")
    handler = folder / "handler.py"
    handler.write_text(f"{handler.read_text()}\n\nCHANGED = True\n")
    return folder


def app_of(engine, context, new_code):
    """Return the app with settings of its own."""
    values = {**DEFAULTS, "engine": engine, **context}
    if values.get("function_folder") == NEW_CODE:
        values["function_folder"] = str(new_code)
    return CdkApp(directory=APP, context={**values, "lanes": json.dumps(values["lanes"])})


@pytest.fixture(autouse=True)
def _credentials(platform, monkeypatch):
    """Let producers of this process reach the platform."""
    for name, value in platform.variables().items():
        monkeypatch.setenv(name, value)


@pytest.mark.deep
def test_engines_are_switched_in_the_middle_of_a_flood(platform, work, new_code):
    """From mappings to pull and back; the old mappings outlive each switch, and their events reach the new engine."""
    mappings, pull = (app_of(engine, {}, new_code) for engine in ("mappings", "pull"))

    with Flood(platform.endpoint_url, work) as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform) as of_lanes:
            platform.deploy(pull)
            assert "BellQueueUrl" in platform.outputs[STACK]
            before = total(of_lanes, "invokes")
            work.wait_for_more(AHEAD)
            until(lambda: total(of_lanes, "invokes") > before, why="no old batch reached the pull engine")
        work.wait_for_more(AHEAD)
        with outliving_mappings(platform) as of_bell:
            platform.deploy(mappings)
            assert "BellQueueUrl" not in platform.outputs[STACK]
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: flood.left(handled) == 0)
    until(lambda: left(platform) == 0)

    assert work.handled.keys() == {message.id for message in flood.sent}
    assert work.most_at_once() == int(DEFAULTS["slots"])
    for ids in flood.groups().values():
        assert sorted(ids, key=work.handled.__getitem__) == ids
    assert total([*of_lanes, *of_bell], "errors") == 0


# Each takes a minute or more, so a change meets one engine here; both hold the contract's suites alike. More slots
# than before are no harder to keep to.
@pytest.mark.parametrize(
    ("change", "engine"),
    [
        pytest.param(*one, marks=pytest.mark.deep if one[0] == "fewer slots" else pytest.mark.nightly)
        for one in zip(CHANGES, itertools.cycle(["mappings", "pull"]), strict=False)
    ],
)
def test_a_change_in_the_middle_of_a_flood(platform, work, new_code, change, engine):
    """Every message is handled, those of a group in order, with no more handlers at once than slots."""
    before, after = CHANGES[change]
    slots = [int({**DEFAULTS, **context}["slots"]) for context in (before, after)]
    platform.deploy(app_of(engine, before, new_code))
    work.steps.clear()

    with Flood(platform.endpoint_url, work, f"flood{next(_numbers)}-") as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform):
            platform.deploy(app_of(engine, after, new_code))
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: flood.left(handled) == 0)
    until(lambda: left(platform) == 0)

    assert work.most_at_once() <= max(slots)
    for group, ids in flood.groups().items():
        # A new lane takes a group's later messages, and a closing one its earlier ones: no order across lanes.
        if "lanes" not in after or "-usual-" not in group:
            assert sorted(ids, key=work.handled.__getitem__) == ids
    if after.get("lanes", [])[1:2] == [CLOSING]:
        platform.deploy(app_of(engine, {"lanes": [HIGH, MAIN]}, new_code))
        assert "MEDIUMQueueUrl" not in platform.outputs[STACK]


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_paused_lane_stays_paused_over_a_deploy_or_the_check_names_it(platform, new_code, engine):
    """A deploy that changes the mapping; and one that switches the engine, with which no pause goes."""
    lanes = Typed(platform.endpoint_url)
    platform.deploy(app_of(engine, {}, new_code))
    lanes.json("--stack", STACK, "pause", "MAIN")

    for changed in (engine, {"mappings": "pull", "pull": "mappings"}[engine]):
        platform.deploy(app_of(changed, {"lanes": LONGER}, new_code))
        states = {row["lane"]: row["mapping"] for row in lanes.json("--stack", STACK, "status")}
        named = [
            one
            for one in json.loads(lanes("--output", "json", "--stack", STACK, "check").stdout)
            if one["verdict"] == "wrong" and "pause" in one["found"] and "MAIN" in one["subject"]
        ]

        assert states["HIGH"] == "Enabled"
        assert len(named) == 1, (states, named)

    if states["MAIN"] == "Enabled":
        lanes.json("--stack", STACK, "pause", "MAIN")
    lanes.json("--stack", STACK, "resume", "MAIN")
    assert "pause" not in lanes("--stack", STACK, "check").stdout
