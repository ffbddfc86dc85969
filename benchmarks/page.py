"""Write the page of the benchmarks and its charts from their results: `python -m benchmarks.page`."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.charts import CHARTS
from benchmarks.report import shown
from benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.targets import Target

DOCS = Path(__file__).resolve().parents[1] / "docs"

COMMAND = re.compile(r"(: )?`python -m [^`]+`(: )?")
"""The command within the first sentence of a benchmark's module."""

INTRODUCTION = """# Benchmarks

Time, order and loss under load, in figures that you can repeat with one command:

```sh
make bench
make bench ARGS=--quick
```

The first takes minutes and renews this page; the second only checks that all benchmarks run. For one of them run
`python -m benchmarks.wait`; its file describes its load. All figures are in [benchmarks.json](benchmarks.json).

The benchmarks of priority run the deployed consumer in virtual time, and compare it with no priority, with an ideal
scheduler without latency or calls, and with the [plain pattern](comparison.md) as its author deploys it, with a
visibility of 30 s and no dead-letter queue. We add our mappings' maximum concurrency, without which its lower lanes
wait longer, and take the best of batches of one, two, five and ten messages.

A figure with a target is the worst of its seeds. Where the range over undocumented behaviour misses the target, its
worst figure is there too, of the first seed at smaller sizes. Times depend on the machine, the others on the seed.
"""

ASSUMPTION = """Dots are the median, bars end at the 99th percentile; a wait ends with the first start of the handler.
The first two charts assume that Lambda retries a throttled batch within two seconds, which AWS documents without a
number. The third has the worst cases: if throttled batches are dropped until their visibility ends, as users report,
HIGH may wait for a whole run with mappings. The dashed line is the target of the pull engine.
"""


def table_of(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return all figures with a target, as Markdown."""
    lines = ["| Benchmark | Figure | Found | Target | Worst of the range |", "|---|---|---|---|---|"]
    for name, line in results.items():
        if "error" in line:
            lines.append(f"| {name} | | {line['error']} | | |")
        for target in TARGETS[name]:
            found = line.get(target.figure)
            verdict = "" if "error" in line or target.is_held_by(found) else ", MISSED"
            in_range = line.get("worst_of_range", {}).get(target.figure)
            worst = "" if in_range is None else shown(in_range)
            lines.append(f"| {name} | `{target.figure}` | {shown(found)} | {target}{verdict} | {worst} |")
    return "\n".join(lines) + "\n"


def page_of(whole: Mapping[str, Any]) -> str:
    """Return the page from the machine, results and printed tables of a run at full size."""
    parts = [
        INTRODUCTION,
        *(f"![{text}](pictures/{file})\n" for file, (text, _) in CHARTS.items()),
        ASSUMPTION,
        _run_on(whole["machine"]),
        _run_later(whole["results"]),
        "## Targets that are met\n",
        *_met(whole["results"]),
        _left_out(whole["results"]),
        "## Missed targets\n",
        *_missed(whole["results"]),
    ]
    return "\n".join(parts)


def write_page(whole: Mapping[str, Any]) -> None:
    """Write the page and its charts."""
    (DOCS / "benchmarks.md").write_text(page_of(whole), encoding="utf-8")
    for file, (_, draw) in CHARTS.items():
        (DOCS / "pictures" / file).write_text(draw(whole["results"]), encoding="utf-8")


def _met(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Give the targets of each benchmark that are met, after a sentence about it."""
    about = ""
    for name, line in results.items():
        met = [target for target in TARGETS[name] if target.is_held_by(line.get(target.figure))]
        figures = "; ".join(f"`{one.figure}` {_found(line, one)}" for one in met) or "none"
        sentence = _about(name) if _module(name) != about else ""
        about = _module(name)
        yield f"**{name}**{sentence}: {figures}.\n"


def _found(line: Mapping[str, Any], target: Target) -> str:
    """Return a figure, its target, and the worst figure over undocumented behaviour where that misses it."""
    worst = line.get("worst_of_range", {}).get(target.figure)
    in_range = "" if worst is None or target.is_held_by(worst) else f", range {shown(worst)}"
    return f"{shown(line.get(target.figure))} ({target}{in_range})"


def _left_out(results: Mapping[str, Any]) -> str:
    """Return a sentence about the benchmarks without results."""
    missing = [label for label in TARGETS if label not in results]
    return f"Not run, and without figures: {'; '.join(missing)}.\n" if missing else ""


def _run_on(machine: Mapping[str, Any]) -> str:
    where = f"{machine['system']} {machine['machine']}, {machine['cores']} cores"
    return f"Run on {machine['date']} with Python {machine['python']} on {where}.\n"


def _run_later(results: Mapping[str, Any]) -> str:
    """Return a sentence about the benchmarks that ran again on another day."""
    days: dict[str, list[str]] = {}
    for name, line in results.items():
        if day := line.get("run_on"):
            days.setdefault(day, []).append(name)
    runs = "; ".join(f"{', '.join(names)} on {day}" for day, names in days.items())
    return f"Run with the version of another day: {runs}.\n" if runs else ""


def _module(label: str) -> str:
    return label.partition("-")[0]


def _about(name: str) -> str:
    """Return the first sentence of the description of a benchmark's module."""
    first = (import_module(f"benchmarks.{_module(name)}").__doc__ or "").strip().partition("\n\n")[0]
    sentence = COMMAND.sub("", " ".join(first.split())).rstrip(".")
    return f", {sentence[0].lower()}{sentence[1:]}"


def _missed(results: Mapping[str, Any]) -> Iterator[str]:
    """Give the missed targets with their reasons, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, line in results.items():
        for target in TARGETS[name]:
            if not target.is_held_by(line.get(target.figure)):
                reason = REASONS.get((name, target.figure), "Not explained yet.")
                reasons.setdefault(reason, []).append(f"{name}: `{target.figure}` {_found(line, target)}")
    for reason, found in reasons.items():
        yield f"**{', '.join(found)}.** {reason}\n"


def main() -> None:
    """Write the page from the results beside it."""
    whole = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    write_page(whole)
    sys.stdout.write(f"{DOCS / 'benchmarks.md'}\n")


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


if __name__ == "__main__":
    main()
