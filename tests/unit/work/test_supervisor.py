"""The supervisor of `lanes work`, with processes and a clock that the test moves."""

import itertools
import subprocess
import sys

import pytest

from lanes.errors import ConfigurationError
from lanes.events import Event
from lanes.testing.clock import FakeClock
from lanes.work.supervisor import BEGAN, ENDED, LONGEST_BACKOFF, OVERTIME, REFUSED, STEADY, TICK, Supervisor
from tests.support.memory import Recorder

TIMEOUT, GRACE = 30.0, 20.0


class FakeSlot:
    """A process that reports and ends as the test says."""

    numbers = itertools.count(100)

    def __init__(self, number):
        self.number = number
        self.pid = next(self.numbers)
        self.code = None
        self.said = [(BEGAN, "")]
        self.stops = 0
        self.ends_on_stop = True

    def exit_code(self):
        return self.code

    def reports(self):
        said, self.said = self.said, []
        return said

    def last_line(self):
        return "ImportError: email is not a package"

    def stop(self):
        self.stops += 1
        if self.ends_on_stop:
            self.code = 0

    def kill(self):
        self.code = -9


class Stage:
    """A supervisor, and all that it has done."""

    def __init__(self, slots=2, *, prepare=lambda _slot: None):
        self.clock, self.recorder, self.started, self.plan = FakeClock(), Recorder(), [], []
        self._prepare = prepare
        self._began_at = self.clock()
        self.most_running = 0
        self.supervisor = Supervisor(
            slots=slots,
            start=self._start,
            timeout=TIMEOUT,
            grace=GRACE,
            telemetry=self.recorder,
            clock=self.clock,
            sleep=self._sleep,
        )

    def at(self, seconds, action):
        """Do something when the time has come."""
        self.plan.append((seconds, action))
        self.plan.sort(key=lambda planned: planned[0])

    def run(self, *, until):
        """Run with a stop after some seconds."""
        self.at(until, self.supervisor.stop)
        return self.supervisor.run()

    def running(self, number):
        """Give the newest process of a slot."""
        return [slot for slot in self.started if slot.number == number][-1]

    @property
    def elapsed(self):
        return self.clock() - self._began_at

    def _start(self, number):
        slot = FakeSlot(number)
        slot.born_at = self.elapsed
        self._prepare(slot)
        self.started.append(slot)
        self.most_running = max(self.most_running, sum(one.code is None for one in self.started))
        return slot

    def _sleep(self, seconds):
        self.clock.advance(seconds)
        while self.plan and self.plan[0][0] <= self.elapsed:
            self.plan.pop(0)[1]()


def births(stage, number):
    """Give the seconds at which a slot's processes were started."""
    return [slot.born_at for slot in stage.started if slot.number == number]


def test_each_slot_has_one_process_and_ends_by_itself_after_a_stop():
    """With a line in the log for each start and each end."""
    stage = Stage(slots=3)

    assert stage.run(until=10)

    assert [slot.number for slot in stage.started] == [0, 1, 2]
    assert [slot.stops for slot in stage.started] == [1, 1, 1]
    assert [fields["slot"] for fields in stage.recorder.named(Event.SLOT_STARTED)] == [0, 1, 2]
    assert [fields["exit_code"] for fields in stage.recorder.named(Event.SLOT_STOPPED)] == [0, 0, 0]
    assert not stage.recorder.named(Event.SLOT_KILLED)


def test_the_other_slots_wait_until_the_first_has_begun():
    """A consumer that can't be imported fails once, not once for each slot."""
    stage = Stage(prepare=lambda slot: slot.said.clear())
    stage.at(5, lambda: stage.running(0).said.append((BEGAN, "")))

    stage.run(until=10)

    assert births(stage, 0) == [0]
    assert births(stage, 1) == [pytest.approx(5, abs=2 * TICK)]


def test_a_run_over_the_function_timeout_is_killed_and_replaced_at_once():
    """As Lambda does with an invocation."""
    stage = Stage(slots=1)

    assert stage.run(until=40)

    (killed,) = stage.recorder.named(Event.SLOT_KILLED)
    assert killed == {"slot": 0, "pid": stage.started[0].pid, "reason": "timeout"}
    assert births(stage, 0) == [0, pytest.approx(TIMEOUT + OVERTIME, abs=4 * TICK)]


def test_time_between_two_runs_does_not_count():
    """A slot that waits since a lane could not be asked isn't hanging; each run has the whole timeout."""
    stage = Stage(slots=1)
    stage.at(20, lambda: stage.running(0).said.append((ENDED, "")))
    stage.at(50, lambda: stage.running(0).said.extend([(BEGAN, ""), (ENDED, ""), (BEGAN, "")]))

    assert stage.run(until=75)

    assert len(stage.started) == 1


def test_a_process_that_dies_again_and_again_is_replaced_more_and_more_slowly():
    """No spin, however it dies."""

    def dying(slot):
        slot.code = 1

    stage = Stage(slots=1, prepare=dying)

    stage.run(until=100)

    born = births(stage, 0)
    pauses = [round(after - before) for before, after in itertools.pairwise(born)]
    assert pauses == [1, 2, 4, 8, 16, LONGEST_BACKOFF, LONGEST_BACKOFF]


def test_a_process_that_lived_for_a_while_is_replaced_soon():
    """One crash in an hour is no series."""
    stage = Stage(slots=1)
    moments = [STEADY + 2, 2 * STEADY + 6]
    for moment in moments:
        stage.at(moment, lambda: setattr(stage.running(0), "code", -11))

    stage.run(until=30)

    assert births(stage, 0) == [0, *(pytest.approx(moment + 1, abs=4 * TICK) for moment in moments)]
    assert [fields["exit_code"] for fields in stage.recorder.named(Event.SLOT_STOPPED)] == [-11, -11, 0]


def test_there_are_never_more_processes_than_slots():
    """Whatever dies or hangs."""
    stage = Stage(slots=3)
    for moment in range(3, 90, 4):
        stage.at(moment, lambda number=moment % 3: setattr(stage.running(number), "code", -9))

    stage.run(until=100)

    assert len(stage.started) > 10
    assert stage.most_running == 3


def test_a_slot_that_does_not_end_within_the_grace_is_killed():
    """And the answer is that not all ended by themselves."""
    stage = Stage(prepare=lambda slot: setattr(slot, "ends_on_stop", slot.number == 0))

    assert not stage.run(until=5)

    (killed,) = stage.recorder.named(Event.SLOT_KILLED)
    assert (killed["slot"], killed["reason"]) == (1, "stop")
    assert stage.elapsed == pytest.approx(5 + GRACE, abs=4 * TICK)


def test_a_second_stop_kills_at_once():
    """Two presses of Ctrl-C."""
    stage = Stage(prepare=lambda slot: setattr(slot, "ends_on_stop", False))
    stage.at(7, stage.supervisor.stop)

    assert not stage.run(until=5)

    assert stage.elapsed == pytest.approx(7, abs=4 * TICK)


def test_the_function_timeout_holds_during_the_grace_too():
    """The records' visibility ends with the run, however long the grace."""
    stage = Stage(slots=1, prepare=lambda slot: setattr(slot, "ends_on_stop", False))

    assert not stage.run(until=25)

    (killed,) = stage.recorder.named(Event.SLOT_KILLED)
    assert killed["reason"] == "timeout"
    assert stage.elapsed == pytest.approx(TIMEOUT + OVERTIME, abs=4 * TICK)


def test_nothing_is_started_after_a_stop():
    """Also where a slot has just died."""
    stage = Stage(slots=2)
    stage.at(5, lambda: setattr(stage.running(1), "code", 1))

    stage.run(until=5.1)

    assert len(stage.started) == 2


def refusing(slot):
    """End as a slot does that can't import its consumer."""
    slot.said, slot.code = [(REFUSED, "there is no module 'ordrs'")], 1


def test_a_first_slot_that_cannot_start_ends_all_with_its_reason():
    """It would fail in the next process too."""
    stage = Stage(prepare=refusing)

    with pytest.raises(ConfigurationError, match="there is no module 'ordrs'"):
        stage.run(until=10)

    assert len(stage.started) == 1


@pytest.mark.parametrize(("code", "ending"), [(1, "with exit code 1"), (-11, "by signal 11")])
def test_a_first_slot_that_ends_three_times_before_any_run_ends_all_with_its_last_line(code, ending):
    """It can't even say why, and would be started again for ever; a long import before the end changes nothing."""
    stage = Stage(prepare=lambda slot: slot.said.clear())
    for moment in (12, 26, 41):
        stage.at(moment, lambda: setattr(stage.running(0), "code", code))

    with pytest.raises(ConfigurationError) as raised:
        stage.run(until=100)

    assert f"the first slot ended 3 times before its first run, {ending}" in str(raised.value)
    assert "its last line: ImportError: email is not a package" in str(raised.value)
    assert len(stage.started) == 3


def test_a_later_slot_that_cannot_start_is_tried_again():
    """The others go on, since a deploy may be under way."""
    stage = Stage(slots=2, prepare=lambda slot: refusing(slot) if len(stage.started) == 1 else None)

    assert stage.run(until=10)

    assert len(stage.started) == 3
    assert stage.recorder.named(Event.SLOT_STOPPED)[0]["error"] == "there is no module 'ordrs'"


AS_PROCESS_1 = """
import ctypes, os, subprocess, sys, time
from pathlib import Path

from lanes.work.supervisor import collect_orphans

own, ADOPTS = str(os.getpid()), 36  # PR_SET_CHILD_SUBREAPER: the parent of every orphan, as process 1 is
ctypes.CDLL(None).prctl(ADOPTS, 1, 0, 0, 0)

def ended():
    found = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(fields[:2] == ["Z", own] for fields in found)

slot = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
for _ in range(5):
    subprocess.run(["sh", "-c", ": & exec sh -c :"], check=True)
while ended() < 6:
    time.sleep(0.02)
collect_orphans([slot.pid])
assert ended() == 6, "only process 1 collects"
os.getpid = lambda: 1
while ended() > 1:
    collect_orphans([slot.pid])
    slot.poll() if ended() == 6 else None
assert slot.wait() == 3
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has containers and this call")
def test_process_1_collects_orphans_and_leaves_the_exit_codes_of_slots():
    """Otherwise each message of a handler that starts programs could leave an entry in the table of processes."""
    done = subprocess.run(
        [sys.executable, "-c", AS_PROCESS_1], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
