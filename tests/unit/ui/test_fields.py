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
        (lambda fields: fields.text("number"), "number is 5; a text is needed"),
        (lambda fields: fields.required("nothing"), "nothing is missing"),
        (lambda fields: fields.choice("text", ["a", "b"]), "text is 'word'; one of a, b is needed"),
        (lambda fields: fields.texts("text"), "a list of texts is needed"),
        (lambda fields: fields.texts("list", ["a"]), "list is 'x'; one of a is needed"),
        (lambda fields: fields.integer("text"), "a whole number is needed"),
        (lambda fields: fields.integer("truth"), "a whole number is needed"),
        (lambda fields: fields.integer("number", least=6), "a whole number from 6 on is needed"),
        (lambda fields: fields.flag("text"), "true or false is needed"),
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
