"""The reasons for missed targets, by benchmark and figure."""

from __future__ import annotations

_CARRIED = (
    "The price of one delivery is flat (`flatness`); the number of deliveries rises with the number of groups. "
    "With one group below, one batch waits at a time; with hundreds another one is always ready, takes a slot "
    "that HIGH has just left, and yields again."
)

_HAND_OVER = (
    "Each batch extends its visibility beside its first record. The hand-over to that thread and back costs about "
    "100 us a batch if it wakes a sleeping core, and 30 us on one core, where a record costs 83 and 32 us; parsing, "
    "checks and outcomes take some 20 us a record, log lines 9 us."
)

REASONS: dict[tuple[str, str], str] = {
    ("bounded", "max_wait_overrun_seconds"): (
        "The share is right, the times are not. An overdue batch is served only when it happens to get a slot, "
        "and under a flood throttled batches compete for each slot: without any priority the longest wait is 277 "
        "s at one slot. Records that are not served when they arrive are parked for 5 to 15 s. The pull engine, "
        "which asks for overdue messages, keeps the bound."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
    ("overhead", "us_per_record_batch_1"): _HAND_OVER,
    ("overhead", "us_per_record_batch_10"): _HAND_OVER,
}
