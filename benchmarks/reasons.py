"""The reasons for missed targets, by benchmark and figure."""

from __future__ import annotations

_CARRIED = (
    "The price of one delivery is flat (`flatness`); the number of deliveries rises with the number of groups. "
    "With one group below, one batch waits at a time; with hundreds another one is always ready, takes a slot "
    "that HIGH has just left, and yields again."
)

_HAND_OVER = (
    "Each batch extends its visibility beside its first record. The hand-over to that thread and back costs about "
    "100 us a batch; parsing, checks and outcomes take some 25 us a record, log lines 12 us."
)

REASONS: dict[tuple[str, str], str] = {
    ("bounded", "max_wait_overrun_seconds"): (
        "The share is right, the times are not. An overdue batch is served only when it happens to get a slot, "
        "and under a flood throttled batches compete for each slot: without any priority the longest wait is 277 "
        "s at one slot. Records that are not served when they arrive are parked for 5 to 15 s. The pull engine, "
        "which asks for overdue messages, keeps the bound."
    ),
    ("wait", "p99_over_plain"): (
        "Four of five seeds hold it. The first has 1.735; it had 1.89 when the bound was set. HIGH's batch waits "
        "for its next try while the slot is free or has gone to a batch of MAIN that yields again; the plain pattern "
        "with batches of ten leaves more slots empty, in which HIGH's batch starts at once."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
    ("overhead", "us_per_record_batch_1"): _HAND_OVER,
    ("overhead", "us_per_record_batch_10"): _HAND_OVER,
}
