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
    assert "82 of 1000 done" in lines[1]
    assert "MAIN 900 waiting, 20 in flight, 80 done, 4 yields, 95/s" in lines[1]


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


def test_the_pace_is_that_of_the_last_seconds():
    """Not of the whole run."""
    pace = Pace()
    for second in range(20):
        paces = pace.of({"MAIN": 100 * min(second, 10)}, now=float(second))

    assert paces == {"MAIN": 0.0}
