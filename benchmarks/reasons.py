"""The reasons for missed targets, by benchmark and figure."""

from __future__ import annotations

AWAY_RECEIVES = (
    "Each slot tries the most urgent record once a minute, 240 times in four hours, and of the twenty groups of HIGH "
    "SQS gives the oldest first. A record that stayed away for longer would be missing when the resource is back."
)

REASONS: dict[tuple[str, str], str] = {
    ("bounded", "max_wait_overrun_seconds"): (
        "An overdue batch is served only when it happens to get a slot, and under a flood throttled batches compete "
        "for each slot: without any priority the longest wait is 277 s at one slot. The pull engine asks for overdue "
        "messages, and keeps the bound."
    ),
    ("scale", "flatness_under_trickle"): (
        "The price of one delivery is flat; the number of deliveries rises with the number of groups. With hundreds of "
        "groups below, a batch is always ready, takes a slot that HIGH has just left, and yields again."
    ),
    ("wait", "p99_over_plain"): (
        "At ten slots, against batches of two; against batches of ten it is 1.83. After each yield the plain pattern's "
        "lower lanes are away for thirty seconds, and leave the slots to HIGH: 0.53 of the time is work, and 0.76 here."
    ),
    ("wait-pull", "dollars_over_plain"): (
        "With ten slots and records of 0.1 s, of which a receive brings two. With three, HIGH waits up to 1.34 times "
        "as long as under the ideal scheduler instead of 1.02 where all records take the same time."
    ),
    ("away", "most_receives"): AWAY_RECEIVES,
    ("away-pull", "most_receives"): AWAY_RECEIVES,
    ("loads-pull", "pareto_over_ideal"): (
        "Ten slots: 1.26 at three and 1.38 at fifty. The wait is in the queue: a slot looks at the lanes above when "
        "its record is expected to end."
    ),
    ("loads-pull", "log_normal_over_ideal"): (
        "With three slots: 1.39 and 1.35 in two seeds, and between 1.22 and 1.25 in the others."
    ),
    ("loads-pull", "short_beyond_ideal_seconds"): (
        "At ten slots with records of 20 ms. The ideal pays for no call and waits 0.11 s; a batch of ten such records "
        "is as long as the calls that find, report and delete it. It still does 1.14 times the work of no priority."
    ),
    ("loads-pull", "rarely_long_over_none"): (
        "Where times vary a batch has few records, and the calls between batches take a tenth of the slots. With full "
        "batches HIGH waited 16.9 s longer than under the ideal scheduler instead of 0.2 s."
    ),
    ("loads-pull", "second_lane_floods_beyond_ideal_seconds"): (
        "The ideal waits for the record that runs, 0.1 s. A message that comes just after a look is found by the one "
        "beside the next record, and waits for the end of that one too."
    ),
    ("loads-pull", "thin_dollars_over_mapped"): (
        "A slot leaves after a long poll of at least 1 s, since short polls may miss messages. Without it the bill "
        "is 1.07 of the mapped engine's, but a missed message waits for the heartbeat. A stay of 0.25 s instead of the "
        "rest of the ring's second, if each sender had rings of its own, gives 3.5; no `linger` 7 % less at ten slots "
        "and as much at one."
    ),
    ("overhead", "us_per_record_batch_1"): (
        "A record costs 19 us and its log line 10, a batch 37 us and its metric object 19. A batch also hands a call "
        "to a thread, which extends the visibility."
    ),
    ("overhead", "us_per_record_batch_10"): (
        "Typed kinds, expiry, runs, decoders and resources that are away have added a twelfth of the instructions of a "
        "record since the target was held."
    ),
    ("overhead", "over_powertools_batch_1"): (
        "Powertools checks no lane above, keeps no attempts, extends no visibility and sends no metric object."
    ),
    **dict.fromkeys(
        [("overhead", "over_powertools_batch_1_pull"), ("overhead", "over_powertools_batch_10_pull")],
        "Includes the slot's receives, deletions and checks, which Lambda's poller makes for the others.",
    ),
    ("overhead", "cold_start_over_powertools"): (
        "The consumer has two clients, as it reads overrides from DynamoDB, and generates some 60 dataclasses of 3 to "
        "5 million instructions each."
    ),
}
