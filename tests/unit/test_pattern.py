"""Regular expressions in linear time: the same answers as Python's, and no expression that blows up."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import pattern
from lanes.pattern import MOST_REMEMBERED, Pattern, PatternError

ATOMS = st.sampled_from(["a", "b", ".", r"\w", r"\d", r"\s", "[ab]", "[^a]", r"[a-c\d]", r"\.", "-", "é"])


def combined(parts):
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])
    return (
        st.builds(lambda one, how: f"(?:{one}){how}", parts, repeats)
        | st.builds("{}{}".format, parts, parts)
        | st.builds("({}|{})".format, parts, parts)
        | st.builds("({}|)".format, parts)
        | st.builds("(?P<name>{})".format, ATOMS)
        | st.builds("^{}$".format, parts)
    )


EXPRESSIONS = st.recursive(ATOMS, combined, max_leaves=6).filter(lambda one: one.count("name") < 2)


@given(EXPRESSIONS, st.text("ab1.- \né", max_size=8))
def test_answers_are_those_of_python(expression, text):
    """An operator knows its syntax, and tries expressions there."""
    assert Pattern(expression).fullmatch(text) == (re.fullmatch(expression, text) is not None)


@pytest.mark.parametrize(
    "expression",
    [r"(\w+-?)+!", r"(a|a)*b", r"(a*)*b", r"(.*)*(.*)*(.*)*!", r"(a|aa)+$b", "a?" * 60 + "a" * 60],
)
def test_no_text_takes_long(expression):
    """Python's engine would take longer than a function may run; the number of steps is that of the characters."""
    steps = []
    compared = Pattern(expression)
    taken = pattern._takes

    def count(state, character):
        steps.append(character)
        return taken(state, character)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern, "_takes", count)
        compared.fullmatch("a" * 128)
        compared.fullmatch("customer-" + "a3f0" * 30)

    assert len(steps) <= 260 * 130


def test_memory_is_bounded():
    """Texts are chosen by senders."""
    compared = Pattern(r"\w*x")
    for number in range(0, 3 * MOST_REMEMBERED, 1_000):
        compared.fullmatch(
            "".join(map(chr, range(0x4E00 + number % 20_000, 0x4E00 + number % 20_000 + 1_000)))
        )

    assert len(compared._steps) <= MOST_REMEMBERED


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(", "missing"),
        (r"(a)\1", "reference to a group"),
        ("(?=a)", "look ahead"),
        ("(?<!a)b", "look ahead"),
        ("(?>a+)", "atomic"),
        ("a++", "possessive"),
        (r"\bword", r"\\b"),
        ("(?i)a", "flags"),
        ("(?i:a)", "flags"),
        ("(?:a{1000}){1000}", "states"),
        ("a{3000}", "over 2000"),
        ("(" * 5_000, "missing|nested"),
    ],
)
def test_other_expressions_are_refused_by_name(expression, why):
    """Before an override with them is written."""
    with pytest.raises(PatternError, match=why):
        Pattern(expression)
