"""Why a target is missed, where it is: by benchmark and figure."""

from __future__ import annotations

_CALLS = (
    "What an invocation tells the others, and its first reading, are calls of 8 ms: 1.3 to 1.6 % of the slots' time. "
    "Up to 2.6 % more are slots that stand free while a throttled batch waits for its next try."
)
_GAPS = (
    "Between two batches of an urgent group there are some 40 ms (deletion, receive, start) in which the slot is free: "
    "a held batch of MAIN takes it, makes way again, and the urgent batch waits for its next try meanwhile."
)
_CARRIED = (
    "What one message costs to carry is flat (`flatness`); what rises with the number of groups is how often messages "
    "are carried. With one group below, one batch waits at a time; with hundreds the next one is always at hand, takes "
    "a slot that HIGH has just left, and makes way again."
)

REASONS: dict[tuple[str, str], str] = {
    ("finish", "speedup_of_ideal_five_groups"): _GAPS,
    ("finish", "drain_ratio"): _CALLS,
    ("bounded", "max_wait_held"): (
        "The share is right, the moments are not. An overdue batch is served only when it happens to get a slot, and "
        "under a flood each slot is fought for by throttled batches: without any priority the longest wait is 315 s "
        "at one slot and 211 s at three. Records that are not served when they come are parked for 5 to 15 s."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
    ("scale", "flatness_under_trickle_waiting_room"): (
        f"{_CARRIED} In the room each batch in line looks for its slot every 20 or 100 ms, and each look is a call: "
        "with one group below nobody but HIGH stands there."
    ),
}
