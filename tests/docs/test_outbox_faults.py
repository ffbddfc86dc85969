"""The faults on the page of the outbox: each row has tests of its promise."""

import re

from tests.docs.pages import ROOT, rows

PAGE = ROOT / "docs" / "how-to" / "outbox-operate.md"
OUTAGES, LOCKS = "test_o6_outages", "test_o7_locks_and_marks"
IN_OUTAGE = "test_an_outage_of_a_lane_costs_no_attempt_no_order_and_no_other_lane"
TESTS = {
    "SQS can't be reached, or fails": [
        (OUTAGES, IN_OUTAGE),
        (OUTAGES, "test_an_outage_of_all_lanes_abandons_nothing"),
    ],
    "SQS throttles": [
        (OUTAGES, IN_OUTAGE),
        (OUTAGES, "test_a_lane_that_throttles_some_messages_goes_on_with_the_others"),
    ],
    "SQS refuses everybody: rights, key, queue policy": [
        (OUTAGES, IN_OUTAGE),
        (OUTAGES, "test_the_error_of_a_key_is_the_destinations_also_entry_by_entry"),
    ],
    "wrong or expired credentials": [(OUTAGES, IN_OUTAGE)],
    "the queue is deleted": [(OUTAGES, IN_OUTAGE)],
    "SQS refuses one message": [
        (OUTAGES, "test_an_entry_that_sqs_refuses_is_the_only_one_to_have_an_attempt"),
        (OUTAGES, "test_a_call_that_is_refused_for_one_of_its_entries_costs_only_that_one"),
    ],
    "the database is away": [("../outbox/test_relay", "test_an_outage_of_the_store_is_waited_out")],
    "the connection is lost between send and mark": [
        (LOCKS, "test_a_mark_that_fails_is_written_soon_and_nothing_is_sent_twice"),
        (LOCKS, "test_a_lost_answer_to_a_mark_is_not_taken_for_a_lost_lock"),
        (LOCKS, "test_marks_are_repeated_until_the_lock_ends_and_no_longer"),
    ],
    "the database's disk is full": [(LOCKS, "test_a_full_disk_of_the_database_is_waited_out")],
    "a relay is killed": [("test_o2_searched_relays", "test_killed_relays_publish_everything_in_order")],
    "several relays run": [
        ("test_o2_concurrent_claims", "test_relays_at_once_claim_different_entries_on_postgresql"),
        (
            "test_o2_searched_relays",
            "test_four_relays_share_the_work_and_send_every_entry_once_and_in_order",
        ),
        ("test_o2_searched_relays", "test_the_search_without_faults_notices_a_broken_store"),
    ],
    "a relay is slow": [
        (LOCKS, "test_a_round_ends_before_its_lock_and_returns_what_is_unsent"),
        (LOCKS, "test_a_slow_and_a_good_relay_send_everything_once_and_in_order"),
    ],
    "a relay's clock is wrong": [
        (LOCKS, "test_a_relay_with_a_wrong_clock_breaks_no_order_and_sqs_drops_its_repeats"),
        (LOCKS, "test_the_entries_of_a_dead_relay_with_a_clock_ahead_wait_for_the_end_of_its_lock"),
    ],
    "SIGTERM": [
        (LOCKS, "test_a_relay_that_is_asked_to_stop_ends_its_round_within_seconds"),
        (LOCKS, "test_a_relay_that_is_asked_to_stop_repeats_its_marks_for_a_moment_only"),
    ],
}


def test_every_fault_of_the_page_has_its_tests():
    """A row without one would be a wish."""
    assert [row[0] for row in rows(PAGE, "## Faults")] == list(TESTS)
    for module, name in (one for several in TESTS.values() for one in several):
        source = (ROOT / "tests" / "contract" / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", source, re.MULTILINE), f"{module}: {name}"
