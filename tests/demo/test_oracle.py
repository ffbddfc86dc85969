"""The demo's oracle finds each planted fault, and nothing in a run without one."""

from local.demo import oracle
from local.demo.figures import run_figures
from local.demo.plan import Fault
from tests.support.demo_runs import RULES, MadeUpRun, quiet_run


def test_a_run_without_fault_is_clean():
    """Every figure that promises nothing is nothing."""
    figures = run_figures(quiet_run().evidence, RULES)

    assert (figures.losses, figures.order_violations, figures.duplicates_handled) == (0, 0, 0)
    assert (figures.healthy_dead_lettered, figures.unexplained_dead_letters, figures.inversions) == (0, 0, 0)


def test_a_message_that_was_accepted_and_never_seen_again_is_a_loss():
    """Whether it was delivered or not."""
    run = MadeUpRun().send("kept").finish("kept", 0, 1).send("gone", delivered=False).send("taken")

    assert oracle.losses(run.evidence) == ["gone", "taken"]


def test_a_dead_letter_is_no_loss():
    """It is where it has to be."""
    run = MadeUpRun().send("poison", fault=Fault.ALWAYS).refuse("poison", 1).bury("poison")

    assert oracle.losses(run.evidence) == []


def test_a_message_that_starts_before_an_earlier_one_of_its_group_ended_is_found():
    """The pair is named."""
    run = MadeUpRun().send("first").send("second").finish("first", 2, 4).finish("second", 3, 5)

    assert oracle.order_violations(run.evidence) == [("first", "second")]


def test_a_message_that_overtakes_a_failing_one_is_found():
    """Between two attempts nothing of the group may run."""
    run = MadeUpRun().send("first").send("second")
    run.refuse("first", 1).finish("second", 2, 3).finish("first", 4, 5)

    assert oracle.order_violations(run.evidence) == [("first", "second")]


def test_other_groups_and_lanes_may_overtake():
    """Order is promised within a group of a lane."""
    run = MadeUpRun().send("first", group="a").send("second", group="b").send("urgent", "HIGH", group="a")
    run.finish("first", 4, 5).finish("second", 1, 2).finish("urgent", 2, 3)

    assert oracle.order_violations(run.evidence) == []


def test_a_queue_that_swaps_the_messages_of_a_sender_is_found():
    """The sender's order counts, not only the queue's."""
    run = MadeUpRun()
    run.send("later", "HIGH", position=2).send("sooner", "HIGH", position=1)
    run.finish("later", 1, 2).finish("sooner", 3, 4)

    assert oracle.order_violations(run.evidence) == [("sooner", "later")]


def test_a_healthy_dead_letter_is_found():
    """One that fails once is healthy too."""
    run = MadeUpRun().send("good").send("flaky", fault=Fault.ONCE).send("poison", fault=Fault.ALWAYS)
    run.bury("good").bury("flaky").bury("poison")

    assert oracle.healthy_dead_lettered(run.evidence) == ["flaky", "good"]


def test_a_dead_letter_without_a_reason_is_found():
    """Each has to say why it was given up."""
    run = MadeUpRun().send("poison", fault=Fault.ALWAYS).bury("poison", reason="")

    assert oracle.unexplained_dead_letters(run.evidence) == ["poison"]


def test_a_message_that_was_finished_twice_counts_once_too_often():
    """Failed attempts before don't count."""
    run = MadeUpRun().send("one").refuse("one", 0).finish("one", 1, 2).finish("one", 3, 4)

    assert oracle.duplicates_handled(run.evidence) == 1


def test_poison_counts_only_after_exactly_the_allowed_attempts():
    """One attempt fewer or more breaks the promise, and so does one that was not given up."""
    run = MadeUpRun()
    for name, attempts in (("early", 2), ("right", 3), ("late", 4)):
        run.send(name, group=name, fault=Fault.ALWAYS).bury(name)
        for attempt in range(attempts):
            run.refuse(name, attempt)
    run.send("kept", fault=Fault.ALWAYS)

    assert oracle.poison_sent(run.evidence) == 4
    assert oracle.poison_dead_lettered(run.evidence, max_attempts=3) == 1


def test_an_attempt_that_crashed_counts_as_failed():
    """Its handler started and never came back."""
    run = MadeUpRun().send("poison", fault=Fault.ALWAYS).bury("poison")
    run.crash("poison", 0).refuse("poison", 1).refuse("poison", 2)

    assert oracle.poison_dead_lettered(run.evidence, max_attempts=3) == 1
