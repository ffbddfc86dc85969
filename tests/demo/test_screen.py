"""What a watcher of the demo sees."""

import io

from rich.console import Console

from local.demo.screen import LiveScreen, PlainScreen, QuietScreen, choose_screen
from local.demo.stage import Depth
from local.demo.view import Pace, flood_view

VIEW = flood_view(
    {"HIGH": Depth(waiting=3, in_flight=1), "MAIN": Depth(waiting=900, in_flight=20)},
    done={"HIGH": 2, "MAIN": 80},
    yields={"MAIN": 4},
    pace={"MAIN": 95.4},
    total=1_000,
)


def test_output_that_is_no_terminal_gets_plain_lines():
    """One for each phase, one for the state of a run."""
    stream = io.StringIO()
    with choose_screen(quiet=False, stream=stream) as screen:
        screen.phase("A phase")
        screen.show(VIEW)
        screen.show(VIEW)

    lines = stream.getvalue().splitlines()
    assert isinstance(screen, PlainScreen)
    assert len(lines) == 2
    assert lines[1].endswith(
        "82 of 1,000 done; HIGH 3 waiting, 1 in flight, 2 done; "
        "MAIN 900 waiting, 20 in flight, 80 done, 4 yields, 95 a second"
    )


def test_plain_lines_leave_out_what_is_nothing():
    """While Spark starts there is nothing at all, and a lane without a message is not mentioned."""
    empty = {"HIGH": Depth(waiting=0, in_flight=0), "MAIN": Depth(waiting=0, in_flight=0)}
    full = empty | {"MAIN": Depth(waiting=900, in_flight=0)}
    stream = io.StringIO()

    for depths in (empty, full):
        screen = PlainScreen(stream)
        screen.show(flood_view(depths, done={}, yields={}, pace={}, total=1_000))

    lines = [line.partition(" s  ")[2].strip() for line in stream.getvalue().splitlines()]
    assert lines == ["the lanes are empty", "MAIN 900 waiting"]


def test_a_quiet_demo_shows_nothing():
    """Whatever the output is."""
    assert isinstance(choose_screen(quiet=True), QuietScreen)


def test_a_terminal_gets_phases_lanes_and_progress():
    """And keeps the phases in the end."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None)
    screen = LiveScreen(console)
    screen.phase("First")
    screen.phase("Second")
    screen.show(VIEW)
    console.print(screen._picture())

    shown = stream.getvalue()
    assert "✓ First" in shown
    assert "… Second" in shown
    assert "82 of 1,000" in shown
    assert "900" in shown


def test_a_narrow_terminal_has_all_of_it_on_lines_of_its_own():
    """Nothing is wrapped or cut at 60 columns."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60, color_system=None)
    screen = LiveScreen(console)
    screen.phase("First")
    screen.show(VIEW)
    console.print(screen._picture())

    lines = stream.getvalue().splitlines()
    assert any(line.split() == ["MAIN", "900", "20", "80", "4", "95"] for line in lines)
    assert lines[-1].endswith("82 of 1,000")


def test_the_phase_that_ctrl_c_ended_is_not_shown_as_done():
    """The one before it is."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None)
    screen = LiveScreen(console)
    screen.__enter__()
    screen.phase("First")
    screen.phase("Second")
    screen.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    shown = stream.getvalue().splitlines()
    assert any("✓ First" in line for line in shown)
    assert any("✗ Second" in line for line in shown)
    assert not any("✓ Second" in line for line in shown)


def test_the_pace_is_that_of_the_last_seconds():
    """Not of the whole run."""
    pace = Pace()
    for second in range(20):
        paces = pace.of({"MAIN": 100 * min(second, 10)}, now=float(second))

    assert paces == {"MAIN": 0.0}
