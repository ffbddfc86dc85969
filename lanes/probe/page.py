"""The page of a probe: findings with their plots, self-contained, for light and dark screens."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lanes.probe import analysis
from lanes.probe.plots import bars, steps, strips
from lanes.probe.words import UNDECIDED, Finding, findings, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.probe.analysis import Events
    from lanes.probe.profile import Profile, Spread

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --paper: #fdfdfc; --faint: #6b6b70; --line: #dcdce0;
  --card: #f3f3f0; --dot: #2b6cb0; --second: #b35c1e; --third: #1c6b3a; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececee; --paper: #17181a; --faint: #a0a0a8; --line: #38393d;
  --card: #222326; --dot: #7fb2e8; --second: #e8a06a; --third: #79d19a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0; } .small { color: var(--faint); font-size: .875rem; }
.assumption { display: inline-block; background: var(--card); border-radius: .4rem; padding: .1rem .6rem; }
.undecided { color: var(--second); } table { border-collapse: collapse; margin: 1.25rem 0; }
td { border-top: 1px solid var(--line); padding: .35rem 1rem .35rem 0; vertical-align: top; } a { color: var(--dot); }
svg { display: block; width: 100%; max-width: 44rem; margin-top: .5rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .label { paint-order: stroke; stroke: var(--paper); stroke-width: 6px; }
svg .tick { fill: var(--faint); font-size: 10px; text-anchor: middle; }
@media (max-width: 34rem) { svg text { font-size: 17px; } svg .tick { font-size: 14px; } }
svg .grid { stroke: var(--line); } svg .range { stroke: var(--ink); stroke-width: 1.5; }
svg .typical { stroke: var(--ink); stroke-width: 2.5; }
svg circle { fill: var(--dot); fill-opacity: .6; } svg rect { fill: var(--dot); fill-opacity: .55; }
svg path { fill: none; stroke-width: 2; stroke: var(--dot); } svg .legend-0 { fill: var(--dot); }
svg .step-1 { stroke: var(--second); } svg .legend-1 { fill: var(--second); }
svg .step-2 { stroke: var(--third); } svg .legend-2 { fill: var(--third); }
"""

_HOW: Mapping[str, str] = {
    "throttle": "One invocation takes the only slot while another batch of its mapping arrives. Times from the free "
    "slot to the start of that batch; those that came back with another receive are not drawn.",
    "winner": "One invocation takes the only slot while a message waits in each of three queues; the order of sending "
    "changes.",
    "pollers": "Mappings with a maximum concurrency of 2, 4 and 13 meet a backlog with a group for each message. "
    "Invocations at once, from the first start on.",
    "order": "A queue in high-throughput mode has several groups of two messages. The first message received returns "
    "or is deleted; a share of 100% means that the same group, which has the oldest message, came again.",
    "counts": "Inside the function, from the answer to a send or receive until the counts show it.",
    "short_polls": "Inside the function, polls without a wait while a few messages wait in groups of their own.",
    "calls": "Inside the function, on open connections, one call after the other.",
    "kill": "The function writes signs of life until it is killed; one write takes a few milliseconds.",
    "bell": "Two messages for each group, sent at once; one invocation handles one message. Without cold starts.",
}


def page(profile: Profile, events: Events) -> str:
    """Return the page as one HTML document."""
    body = [
        "<h1>Measured behaviour of AWS</h1>",
        f"<p>{escape(profile.region)}, {escape(profile.measured_at.replace('T', ' '))}</p>",
    ]
    if profile.incomplete:
        body.append(f"<p class='undecided'>Incomplete: {escape(', '.join(profile.incomplete))}.</p>")
    found = findings(profile)
    body += [
        "<table>",
        *map(_row, found),
        "</table>",
        (
            "<p class='small'>On the right: the nearest assumption of <code>lanes simulate</code>. <i>As given</i> "
            "is its default, and <i>undecided</i> is between two. Times that it uses as measured have none. "
            "In the plots, lines are the ranges in the profile, and dots are single measurements.</p>"
        ),
    ]
    for finding in found:
        body += _section(finding, profile, events)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>Measured behaviour of AWS</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _row(finding: Finding) -> str:
    """Return the row of a finding in the table of all."""
    kind = "assumption undecided" if finding.assumption == UNDECIDED else "assumption"
    name = f"<span class='{kind}'>{escape(finding.assumption)}</span>" if finding.assumption else ""
    return f"<tr><td><a href='#{finding.section}'>{escape(finding.title)}</a></td><td>{name}</td></tr>"


def _section(finding: Finding, profile: Profile, events: Events) -> list[str]:
    experiment, _ = analysis.SECTIONS[finding.section]
    return [
        f"<h2 id='{finding.section}'>{escape(finding.title)}</h2>",
        f"<p>{escape(finding.text)}</p>",
        _PLOTS[finding.section](profile, analysis.of(events, experiment)),
        f"<p class='small'>{escape(_HOW[finding.section])}</p>",
    ]


def _throttle(profile: Profile, events: Events) -> str:
    assert profile.throttle is not None  # noqa: S101 - only measured sections are drawn
    waits = analysis.retry_waits(events)
    return strips({"free slot to start": (waits, profile.throttle.longest_wait)}, seconds) if waits else ""


def _winner(profile: Profile, _events: Events) -> str:
    found = profile.winner
    assert found is not None  # noqa: S101
    shares = {
        "mapping made first": found.first,
        "mapping made last": found.last,
        "oldest message": found.oldest,
    }
    return bars({name: _share(share, found.samples) for name, share in shares.items()})


def _pollers(_profile: Profile, events: Events) -> str:
    lines = {}
    for run in analysis.runs(events):
        line = analysis.concurrency(run)
        if line:
            name = f"maximum {run[0]['run'].rpartition('/')[2]}"
            lines[name] = [(at - line[0][0], number) for at, number in line]
    return steps(lines)


def _order(profile: Profile, _events: Events) -> str:
    found = profile.order
    assert found is not None  # noqa: S101
    each = max(1, found.samples // 2)
    return bars(
        {
            "same after a return": _share(found.same_after_return, each),
            "same after a delete": _share(found.same_after_delete, each),
        }
    )


def _counts(profile: Profile, events: Events) -> str:
    assert profile.counts is not None  # noqa: S101
    rows = {}
    for change in ("sent", "received"):
        ages = [
            event["age"] for event in events if event.get("change") == change and event["age"] is not None
        ]
        if ages:
            rows[f"after a message was {change}"] = (ages, None)
    return strips(rows, seconds)


def _short_polls(profile: Profile, _events: Events) -> str:
    assert profile.short_polls is not None  # noqa: S101
    return bars({"missed": profile.short_polls.missed})


def _calls(profile: Profile, events: Events) -> str:
    return strips(
        {
            name.replace("_", " "): (
                [one for event in events for one in event.get(name, [])],
                getattr(profile.calls, name),
            )
            for name in analysis.CALLS
        },
        seconds,
    )


def _kill(profile: Profile, events: Events) -> str:
    assert profile.kill is not None  # noqa: S101
    return strips({"timeout to last sign": (analysis.last_signs(events), profile.kill.late)}, seconds)


def _bell(profile: Profile, events: Events) -> str:
    found = profile.bell
    assert found is not None  # noqa: S101
    starts, follows = analysis.bell_times(events)
    return strips(
        {"send to start": (starts, found.start), "end to next start": (follows, found.follow)}, seconds
    )


_PLOTS: Mapping[str, Callable[[Profile, Events], str]] = {
    "throttle": _throttle,
    "winner": _winner,
    "pollers": _pollers,
    "order": _order,
    "counts": _counts,
    "short_polls": _short_polls,
    "calls": _calls,
    "kill": _kill,
    "bell": _bell,
}


def _share(share: float, samples: int) -> Spread:
    return analysis.share_of(round(share * samples), samples)
