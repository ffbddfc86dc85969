"""The reasons for missed targets, by benchmark and figure."""

from __future__ import annotations

_CALLS = (
    "An invocation writes its presence and reads the higher lanes in calls of 8 ms, for which its records wait: 4.5 "
    "to 4.8 % of slot time. Up to 3.5 % more are slots that are free while a throttled batch waits for its next try."
)
_GAPS = (
    "Between two batches of an urgent group the slot is free for some 40 ms (deletion, receive, start). A held "
    "batch of MAIN takes it and yields again, and meanwhile the urgent batch waits for its next try."
)
_CARRIED = (
    "The price of one delivery is flat (`flatness`); the number of deliveries rises with the number of groups. "
    "With one group below, one batch waits at a time; with hundreds another one is always ready, takes a slot "
    "that HIGH has just left, and yields again."
)

REASONS: dict[tuple[str, str], str] = {
    ("finish", "speedup_of_ideal_five_groups"): _GAPS,
    ("finish", "drain_ratio"): _CALLS,
    ("bounded", "max_wait_overrun_seconds"): (
        "The share is right, the times are not. An overdue batch is served only when it happens to get a slot, "
        "and under a flood throttled batches compete for each slot: without any priority the longest wait is 277 "
        "s at one slot. Records that are not served when they arrive are parked for 5 to 15 s. The pull engine, "
        "which asks for overdue messages, keeps the bound."
    ),
    ("wait", "p99_over_plain"): (
        "Four of five seeds hold it. HIGH's batch waits for its next try while the slot is free or has gone to "
        "a batch of MAIN that yields again; the plain pattern with batches of ten leaves more slots empty, in which "
        "HIGH's batch starts at once."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
}
