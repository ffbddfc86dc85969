"""
Mutants of the packages that keep the promises: a test notices each one, or `survivors.toml` has the reason why not.

`python -m tests.mutation PACKAGE` runs all mutants of a package, which takes an hour or more.
"""

import pytest

from tests.mutation.nets import NETS, Net
from tests.support.mutation import argued, mutants, survivors

pytestmark = pytest.mark.nightly
SIZES = {"consumer": 24, "outbox": 16, "spark": 40}


@pytest.mark.parametrize("package", NETS)
def test_no_more_mutants_survive_than_are_recorded(package):
    """A sample, the same one in each run. Write a test for each new survivor, or record why none can notice it."""
    found, number = survivors(package, SIZES[package])

    listed = "\n".join(map(str, found))
    assert len(found) / number <= argued()[package]["share"], f"{len(found)} of {number} survived:\n{listed}"


def test_a_mutant_that_no_test_touches_survives(monkeypatch):
    """Otherwise the tests above could not fail."""
    unguarded = Net(modules=("lanes/outbox/filter.py",), tests=("tests/outbox/test_rules.py",))
    monkeypatch.setitem(NETS, "outbox", (unguarded,))

    found, number = survivors("outbox", 2)

    assert len(found) == number == 2


def test_each_argued_survivor_is_still_a_mutant():
    """An entry goes with its line."""
    made = {
        package: {one.identity for net in nets for path in net.paths() for one in mutants(path)}
        for package, nets in NETS.items()
    }

    for package, known in argued().items():
        for one in known["argued"]:
            assert one["reason"]
            assert (one["operator"], one["line"], one.get("turn", 1)) in made[package], one
