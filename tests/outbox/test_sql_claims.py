"""A claim beside an operator's change, in PostgreSQL."""

import sqlalchemy as sa

from lanes.config import LanesConfig
from lanes.outbox import EntryFilter, Operator
from tests.support.outbox import Bench


def test_a_group_that_is_moved_during_a_claim_keeps_its_order(postgresql_subject, clock):
    """The claim passes over entries that an operator is changing, and finds them in order afterwards."""
    bench = Bench(postgresql_subject, clock)
    bench.write("a", "b", group="g")
    bench.write("x")
    operator = Operator(store=bench.operations, config=LanesConfig(), who="ops", clock=clock)
    changes, beside = [], []

    def claim_now(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE"):
            changes.append(statement)
            # The operator's transaction has changed both entries, and ends after this.
            if len(changes) == 2:
                beside.append(bench.ids())

    sa.event.listen(postgresql_subject.engine, "after_cursor_execute", claim_now)
    assert operator.prioritize(EntryFilter(group="g"), 100) == 2
    sa.event.remove(postgresql_subject.engine, "after_cursor_execute", claim_now)

    assert beside == [["x"]]
    assert bench.sent() == ["a", "b"]
