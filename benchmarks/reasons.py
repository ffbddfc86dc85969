"""Why a target is missed, where it is: by benchmark and figure."""

from __future__ import annotations

_READINGS = (
    "The lanes above are read before every second record (they take 0.2 s, a reading serves for 0.25 s): with what "
    "an invocation tells the others, 4.5 to 4.8 % of the slots' time goes into calls of 8 ms each. The rest of the "
    "difference is slots that stand free while a throttled batch waits for its next try."
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
    ("finish", "drain_ratio"): _READINGS,
    ("finish", "drain_ratio_waiting_room"): (
        "Taking a slot and giving it back are two calls of 8 ms for a batch of two seconds, and who stands above is "
        "read before every second record: 2 to 3 % of the slots' time, where no priority makes no call at all."
    ),
    ("bounded", "max_wait_held"): (
        "The share is right, the moments are not. An overdue batch is served only when it happens to get a slot, and "
        "under a flood each slot is fought for by throttled batches: without any priority the longest wait is 315 s "
        "at one slot and 211 s at three. Records that are not served when they come are parked for 5 to 15 s."
    ),
    ("idle", "busy_over_none"): (
        "Missed by one mix alone: one ordered group of MAIN below two short messages of HIGH a second, at one slot. "
        "Each of them interrupts MAIN and costs five calls of 8 ms; the other mixes are at 0.956 and above."
    ),
    ("overhead", "us_per_record_batch_10"): (
        "A record's own 20 microseconds and a tenth of what an invocation does once. Its line of log takes 6, the rest "
        "is spread over a hundred calls of Python. A JSON library in machine code would write the line in 1, but what "
        "is deployed for arm64 could no longer run on this machine as it is."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
    ("scale", "flatness_under_trickle_waiting_room"): (
        f"{_CARRIED} In the room each batch in line looks for its slot every 30 or 100 ms, and each look is a call: "
        "with one group below nobody but HIGH stands there."
    ),
}
