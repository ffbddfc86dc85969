"""The oracle: which messages were lost, overtaken, repeated or given up wrongly, found in the evidence alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from local.demo.evidence import Ending, Evidence
from local.demo.plan import Fault


def losses(evidence: Evidence) -> list[str]:
    """Find accepted messages that are neither done nor in a dead-letter queue."""
    return sorted(evidence.sent.keys() - evidence.finished - evidence.dead)


def order_violations(evidence: Evidence) -> list[tuple[str, str]]:
    """
    Find pairs (earlier, later) of a lane and group that were not handled in order.

    Either the later one started before the earlier one had ended, or the queue itself has them in another
    order than their sender.
    """
    overtaken = [pair for members in evidence.groups.values() for pair in _overtakings(evidence, members)]
    return overtaken + [pair for members in evidence.groups.values() for pair in _swapped(evidence, members)]


def _swapped(evidence: Evidence, members: Sequence[str]) -> Iterator[tuple[str, str]]:
    positions = ((evidence.sent[one].position, one) for one in members if one in evidence.sent)
    known = [(position, one) for position, one in positions if position is not None]
    for (before, first), (after, second) in pairwise(known):
        if after < before:
            yield second, first


def _overtakings(evidence: Evidence, members: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each later message at most once, with the earlier one that ended last."""
    last, last_end = "", float("-inf")
    for one in members:
        effects = evidence.effects_of.get(one)
        if not effects:
            continue
        if effects[0].started_at < last_end:
            yield last, one
        end = max(effect.last_seen_at for effect in effects)
        if end > last_end:
            last, last_end = one, end


def healthy_dead_lettered(evidence: Evidence) -> list[str]:
    """Find dead letters that were not made to fail always."""
    return sorted(evidence.dead - _poison(evidence))


def unexplained_dead_letters(evidence: Evidence) -> list[str]:
    """Find dead letters without a reason."""
    return sorted(letter.id for letter in evidence.dead_letters if not letter.reason)


def duplicates_handled(evidence: Evidence) -> int:
    """Count how often a message was finished beyond the first time."""
    finished = sum(1 for effect in evidence.effects if effect.ending is Ending.FINISHED)
    return finished - len(evidence.finished)


def poison_sent(evidence: Evidence) -> int:
    """Count messages that were made to fail always."""
    return len(_poison(evidence))


def poison_dead_lettered(evidence: Evidence, *, max_attempts: int) -> int:
    """Count those of them that are in a dead-letter queue after exactly so many failed attempts."""
    given_up = _poison(evidence) & evidence.dead
    return sum(1 for one in given_up if evidence.failed_attempts(one) == max_attempts)


def _poison(evidence: Evidence) -> set[str]:
    return {one for one, sent in evidence.sent.items() if sent.fault is Fault.ALWAYS}


def longest_record_seconds(evidence: Evidence) -> float:
    """Give the length of the longest effect."""
    return max((effect.last_seen_at - effect.started_at for effect in evidence.effects), default=0.0)
