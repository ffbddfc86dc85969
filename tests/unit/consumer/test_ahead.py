"""Reading ahead: who ends a reading, and what is learnt of how long records take."""

from lanes.config import LanesConfig
from lanes.consumer.ahead import ReadAhead
from lanes.testing.clock import FakeClock

(LANE,) = LanesConfig.from_dict({"lanes": [{"name": "ONLY"}]}).lanes


class AlwaysOld:
    """A gate for which nothing is ever known."""

    def needs_reading(self, _lane, *, at, expected):
        return True


class Ended:
    """A background whose errand notes that it was ended."""

    def __init__(self):
        self.count = 0

    def after(self, _seconds, _action):
        return self

    def end(self):
        self.count += 1


class Beside(ReadAhead):
    """Another thread of the handler ends the reading whenever this one has looked whether there is any."""

    @property
    def _errand(self):
        errand, self._kept = self._kept, None
        return errand

    @_errand.setter
    def _errand(self, errand):
        self._kept = errand


def test_threads_of_a_handler_may_end_a_reading_at_the_same_time():
    """A checkpoint in each of them does."""
    background = Ended()
    ahead = Beside(gate=AlwaysOld(), background=background, clock=FakeClock())
    ahead.took(LANE, 0.1)
    ahead.begin(LANE, expected=0.1)

    ahead.end()
    ahead.end()

    assert background.count == 1


def test_a_clock_that_was_set_back_during_a_handler_spoils_little_of_what_is_learnt():
    """That handler seemed to take less than no time; a few more and it is known again how long they take."""
    ahead = ReadAhead(gate=AlwaysOld(), background=Ended(), clock=FakeClock())
    ahead.took(LANE, -3_600.0)

    for _ in range(10):
        ahead.took(LANE, 0.1)

    assert 0.05 < ahead.likely(LANE) <= 0.1
