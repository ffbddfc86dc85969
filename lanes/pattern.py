r"""
Regular expressions that match in linear time.

The consumer compares every record that it receives with an operator's expression, and senders choose the texts.
Python's engine backtracks: `(\w+-?)+!` takes minutes for a group of 40 characters, and would hold its lane for as long.
Here an expression is a graph of states, and each character of a text moves the set of possible states on (Cox, "Regular
Expression Matching Can Be Simple And Fast", https://swtch.com/~rsc/regexp/regexp1.html).
"""

from __future__ import annotations

import dataclasses
import re
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_STATES = 2_000
"""The most states of an expression; a repeat such as `\\w{1,100}` has as many as it may have characters."""
MOST_REMEMBERED = 10_000
"""The most steps that are remembered, which bounds the memory whatever texts arrive."""
REFUSED = {
    op.GROUPREF: "a reference to a group",
    op.GROUPREF_EXISTS: "a condition on a group",
    op.ASSERT: "a look ahead or behind",
    op.ASSERT_NOT: "a look ahead or behind",
    op.ATOMIC_GROUP: "an atomic group",
    op.POSSESSIVE_REPEAT: "a possessive repeat",
}
CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


class PatternError(ValueError):
    """An expression is invalid, or has a part that can't be matched in linear time."""


@dataclasses.dataclass(slots=True, eq=False)
class _State:
    """A character to match and the state behind it; without one, states that are reached at once."""

    matches: Callable[[str], bool] | None = None
    after: list[_State] = dataclasses.field(default_factory=list)
    at: Any = None
    """`^` or `$`: the state is passed only there."""


class Pattern:
    """
    A regular expression in Python's syntax, compared with whole texts.

    Args:
        expression: without references, looks ahead or behind, and possessive parts.

    Raises:
        PatternError: it is invalid, or can't be matched in linear time.
    """

    def __init__(self, expression: str) -> None:
        try:
            parsed = _parser.parse(expression)
        except (re.error, RecursionError, OverflowError) as error:
            is_deep = isinstance(error, RecursionError)
            raise PatternError("it is nested too deeply" if is_deep else str(error)) from None
        if parsed.state.flags & ~re.UNICODE:
            raise PatternError("flags such as (?i) are not allowed; write [Aa] for both cases")
        self._count = 0
        self._end = self._state()
        self._start = self._sequence(parsed, self._end)
        self._steps: dict[tuple[frozenset[_State], str], frozenset[_State]] = {}

    def fullmatch(self, text: str) -> bool:
        """Check whether the expression matches a whole text."""
        states = _reached([self._start], is_first=True, is_last=not text)
        # `$` is also before a line end at the end of the text.
        for place, character in enumerate(text):
            left = len(text) - place - 1
            if left == 0 or (left == 1 and text[-1] == "\n"):
                moved = (one for state in states if _takes(state, character) for one in state.after)
                states = _reached(moved, is_first=False, is_last=True)
            else:
                states = self._step(states, character)
            if not states:
                return False
        return self._end in states

    def _step(self, states: frozenset[_State], character: str) -> frozenset[_State]:
        key = (states, character)
        if (known := self._steps.get(key)) is None:
            moved = (one for state in states if _takes(state, character) for one in state.after)
            known = _reached(moved, is_first=False, is_last=False)
            if len(self._steps) >= MOST_REMEMBERED:
                self._steps.clear()
            self._steps[key] = known
        return known

    def _state(self, matches: Callable[[str], bool] | None = None, *after: _State, at: Any = None) -> _State:
        self._count += 1
        if self._count > MOST_STATES:
            raise PatternError(f"it needs more than {MOST_STATES} states; repeat less")
        return _State(matches, list(after), at)

    def _sequence(self, parts: Iterable[tuple[Any, Any]], after: _State) -> _State:
        """Return the state that matches parts one after the other, and leads to `after`."""
        for code, argument in reversed(list(parts)):
            after = self._part(code, argument, after)
        return after

    def _part(self, code: Any, argument: Any, after: _State) -> _State:
        if code in REFUSED:
            raise PatternError(f"{REFUSED[code]} is not allowed, since its time can grow without bound")
        if code is op.BRANCH:
            return self._state(None, *(self._sequence(one, after) for one in argument[1]))
        if code is op.SUBPATTERN:
            if argument[1] or argument[2]:
                raise PatternError("flags such as (?i:...) are not allowed; write [Aa] for both cases")
            return self._sequence(argument[3], after)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, parts = argument
            return self._repeat(parts, after, least=least, most=most)
        if code is op.AT:
            if argument not in (op.AT_BEGINNING, op.AT_BEGINNING_STRING, op.AT_END, op.AT_END_STRING):
                raise PatternError(r"\b and \B are not allowed; match the characters beside them")
            return self._state(None, after, at=argument)
        return self._state(_character(code, argument), after)

    def _repeat(self, parts: Any, after: _State, *, least: int, most: int) -> _State:
        if least > MOST_STATES or (most is not op.MAXREPEAT and most > MOST_STATES):
            raise PatternError(f"a repeat is over {MOST_STATES}")
        if most is op.MAXREPEAT:
            loop = self._state()
            loop.after += [self._sequence(parts, loop), after]
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._state(None, self._sequence(parts, after), end)
        for _ in range(least):
            after = self._sequence(parts, after)
        return after


def _takes(state: _State, character: str) -> bool:
    return state.matches is not None and state.matches(character)


def _reached(states: Iterable[_State], *, is_first: bool, is_last: bool) -> frozenset[_State]:
    """Return the states with all that they reach without a character."""
    found: set[_State] = set()
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        if state.at is not None and not (is_first if state.at in _BEGINNINGS else is_last):
            continue
        found.add(state)
        if state.matches is None:
            waiting += state.after
    return frozenset(found)


_BEGINNINGS = (op.AT_BEGINNING, op.AT_BEGINNING_STRING)


def _character(code: Any, argument: Any) -> Callable[[str], bool]:
    """Return the test of one character."""
    if code is op.LITERAL:
        return chr(argument).__eq__
    if code is op.NOT_LITERAL:
        return chr(argument).__ne__
    if code is op.ANY:
        return "\n".__ne__
    if code is op.IN:
        is_negated = argument[0][0] is op.NEGATE
        tests = [_character(*one) for one in argument[is_negated:]]
        return lambda character: any(test(character) for test in tests) is not is_negated
    if code is op.RANGE:
        low, high = map(chr, argument)
        return lambda character: low <= character <= high
    if code is op.CATEGORY:
        expression = re.compile(CATEGORIES[argument])
        return lambda character: expression.fullmatch(character) is not None
    raise PatternError(f"a part of the kind {code} is not allowed")
