"""How the command and the page write durations: one rule in two languages."""

DURATIONS = {
    -1: "0 s",
    0: "0 s",
    0.0004: "0 ms",
    0.0123: "12 ms",
    0.25: "250 ms",
    0.9994: "999 ms",
    1: "1 s",
    1.5: "1.5 s",
    2.345: "2.35 s",
    12.34: "12.3 s",
    59.96: "60 s",
    60: "60 s",
    99.4: "99.4 s",
    100: "1 min 40 s",
    120: "2 min",
    187.4: "3 min 7 s",
    3599.6: "1 h",
    3605: "1 h",
    3660: "1 h 1 min",
    86_400: "1 d",
    93_600: "1 d 2 h",
    1_000_000: "11 d 13 h",
}
"""Texts by seconds."""
