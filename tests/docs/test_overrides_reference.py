"""The page about the ledger's items and the code that writes those of overrides and holds name the same things."""

import json

import pytest

from lanes.aws.table import holds, override_items
from lanes.holds import Hold
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Cancelled, GroupRedirect, Override
from tests.docs.pages import ROOT, codes, rows

PAGE = ROOT / "docs" / "reference" / "ledger.md"
HOLD = Hold(
    lane="MAIN",
    group="g",
    leader="m",
    id="i",
    reason="r",
    error="e",
    since=1.0,
    opening="a1",
    again=True,
    last="c",
)
FOLLOW = GroupRedirect(lane="MAIN", group="g", override="o", expires_at=1.0)
CANCELLED = Cancelled(
    lane="MAIN",
    message_id="m",
    id="i",
    kind="k",
    group="g",
    source="s",
    sent_at=1.0,
    receive_count=1,
    cancelled_at=2.0,
    override="o",
    who="w",
    why="y",
)


@pytest.mark.parametrize(
    ("heading", "item"),
    [
        ("## `follow#<lane>#<group>`", override_items.item_of_redirect(FOLLOW)),
        ("## `cancelled#<lane>#<message id>`", override_items.item_of_cancelled(CANCELLED)),
        ("## `hold#<lane>#<group>`", holds.item_of(HOLD)),
    ],
)
def test_the_attributes_are_those_of_the_table(heading, item):
    """As they are written, with all that an item can have."""
    documented = {name for row in rows(PAGE, heading) for name in codes(row[0])}

    assert documented == set(item) - {"pk"}


def test_an_overrides_fields_are_those_on_the_board():
    """The JSON that stands there."""
    override = Override(
        id="o",
        action=Action.CANCEL,
        wanted=MessageFilter(kind="k"),
        created_at=1.0,
        expires_at=2.0,
        who="w",
    )
    fields = set(json.loads(override_items.override_text(override)))
    documented = {codes(row[0])[0]: set(codes(row[1])) for row in rows(PAGE, "## `overrides`")}

    assert documented == {override_items.OVERRIDE + "<id>": fields, override_items.HELD + "<lane>": set()}
