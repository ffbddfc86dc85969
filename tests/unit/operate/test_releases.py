"""The release to go back to, chosen without AWS."""

import json
from datetime import timedelta

import pytest

from lanes.errors import ConfigurationError
from lanes.operate.lanes.releases import Release, release_to_return_to


def release(version, *, seconds=30, **document):
    """Make a release with these values in its deployment document."""
    document = {"queues": {"MAIN": "url"}, "table": "ledger", **document}
    return Release(
        version=version,
        changed="2026-11-20T12:00:00Z",
        code=f"digest{version}",
        timeout=timedelta(seconds=seconds),
        variables={"LANES_DEPLOYMENT": json.dumps(document)},
    )


def test_the_release_before_the_live_one_is_chosen():
    """Also where versions are missing, and where the live one is not the newest."""
    found = [release(9), release(2), release(5)]

    assert release_to_return_to(found, live=9).version == 5
    assert release_to_return_to(found, live=5).version == 2
    assert release_to_return_to(found, live=5, to=9).version == 9


@pytest.mark.parametrize(
    ("live", "to", "message"),
    [
        (1, None, r"version 1 is the first one, .* deploy a correction"),
        (2, 7, r"there is no version 7; versions are 1, 2"),
        (2, 2, r"version 2 is live already"),
    ],
)
def test_a_release_that_is_not_there_is_refused(live, to, message):
    """Nothing is changed, and the error says why."""
    with pytest.raises(ConfigurationError, match=message):
        release_to_return_to([release(1), release(2)], live=live, to=to)


@pytest.mark.parametrize(
    ("earlier", "message"),
    [
        ({"queues": {"MAIN": "another"}}, "with other queues"),
        ({"bell": "url"}, "with other bell"),
        ({"table": "another"}, "with other table"),
        ({"seconds": 60}, "function timeout of 60 s, .* made for 30 s"),
    ],
)
def test_a_release_that_does_not_fit_the_deployed_queues_is_refused(earlier, message):
    """An engine that the queues are not made for would leave messages unhandled."""
    with pytest.raises(ConfigurationError, match=message):
        release_to_return_to([release(1, **earlier), release(2)], live=2)
