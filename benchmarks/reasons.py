"""Why a target is missed, where it is: by benchmark and figure."""

from __future__ import annotations

_READINGS = (
    "The lanes above are read before every second record (they take 0.2 s, a reading serves for 0.25 s): with what an "
    "invocation tells the others, 4.6 % of the slots' time goes into calls of 8 ms each. The rest of the difference "
    "is slots that stand free while a throttled batch waits for its next try."
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
    ("finish", "speedup_of_ideal_five_groups_waiting_room"): (
        "Five urgent groups need all five slots at once, and every batch of theirs pays for taking a slot, giving it "
        "back, and the look that finds it, up to 100 ms in line: 24.2 s in place of 20 s."
    ),
    ("finish", "drain_ratio_waiting_room"): (
        "Taking a slot and giving it back are two calls of 8 ms for a batch of two seconds, where no priority makes "
        "none: 0.8 % for each batch of ten, and what a look comes too late."
    ),
    ("bounded", "max_wait_held"): (
        "The share is right, the moments are not. An overdue batch is served only when it happens to get a slot, and "
        "under a flood each slot is fought for by throttled batches: without any priority the longest wait is 336 s "
        "at one slot and 161 s at three. Records that are not served when they come are parked for 5 to 15 s."
    ),
    ("bounded", "max_wait_held_waiting_room"): (
        "Whether a batch is overdue, and whether the reserve has something left for it, is asked when the batch "
        "enters the room. One that becomes overdue in line, or came while the account was overdrawn, stands in line "
        "like the others until its patience is over, and comes back after its parking: 20 to 30 s for each try."
    ),
    ("idle", "busy_over_none"): (
        "Missed by one mix alone: one ordered group of MAIN below two short messages of HIGH a second, at one slot. "
        "Each of them interrupts MAIN and costs five calls of 8 ms; the other mixes are at 0.958 and above."
    ),
    ("overhead", "us_per_record_batch_1"): (
        "Some 30 microseconds are the lines of log and metrics, 25 what an invocation does once (entering and leaving "
        "the slot, looking for parked records, reading the event), the rest the record's own. No part of it stands "
        "out in a profile; of a handler of 10 ms it is less than a hundredth."
    ),
    ("overhead", "us_per_record_batch_10"): (
        "A line of log for each message takes 15 microseconds, without it 24 are left: decoding and checking the "
        "event takes a third of them, the rest is spread over some sixty calls of Python."
    ),
    ("scale", "flatness_under_trickle"): _CARRIED,
    ("scale", "flatness_under_trickle_waiting_room"): (
        f"{_CARRIED} In the room each batch in line looks for its slot every 30 or 100 ms, and each look is a call: "
        "with one group below nobody but HIGH stands there."
    ),
}
