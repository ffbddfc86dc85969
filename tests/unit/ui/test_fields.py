"""What the page's scripts send."""

import pytest

from lanes.errors import ConfigurationError
from lanes.ui.fields import Fields


def test_fields_are_read_by_name_and_type():
    """An empty text counts as left out."""
    fields = Fields.of_body(b'{"kind": "a", "group": "", "limit": "7", "exact": true, "ids": ["x"]}')

    assert (fields.text("kind"), fields.text("group"), fields.integer("limit")) == ("a", None, 7)
    assert (fields.flag("exact"), fields.flag("other")) == (True, False)
    assert (fields.texts("ids"), fields.texts("more")) == (["x"], [])
    assert fields.integer("nothing") is None


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda fields: fields.text("number"), "number is 5; give a text"),
        (lambda fields: fields.required("nothing"), "nothing is missing"),
        (lambda fields: fields.choice("text", ["a", "b"]), "text is 'word'; give one of a, b"),
        (lambda fields: fields.texts("text"), "give a list of texts"),
        (lambda fields: fields.texts("list", ["a"]), "list is 'x'; give one of a"),
        (lambda fields: fields.integer("text"), "give a whole number"),
        (lambda fields: fields.integer("truth"), "give a whole number"),
        (lambda fields: fields.integer("number", min_=6), "give a whole number of at least 6"),
        (lambda fields: fields.flag("text"), "give true or false"),
    ],
    ids=range(9),
)
def test_what_is_of_another_type_is_refused(read, problem):
    """With the field's name."""
    fields = Fields({"number": 5, "text": "word", "list": ["x"], "truth": True})

    with pytest.raises(ConfigurationError, match=problem):
        read(fields)


@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body):
    """However it is broken."""
    with pytest.raises(ConfigurationError):
        Fields.of_body(body)
