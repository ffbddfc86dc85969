"""Rows that a statement is given, as a table in few parameters: one for each value would take most of a round."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Dialect


class Given:
    """
    A table of given rows.

    Args:
        dialect: of the database.
        name: of the table.
        columns: their types by name.

    Attributes:
        table: the table, for a statement.
    """

    def __init__(self, dialect: Dialect, name: str, columns: Mapping[str, Any]) -> None:
        self._name = name
        self._columns = tuple(columns)
        self._is_json = dialect.name == "sqlite"
        self.table: Any
        if self._is_json:
            each = sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued(
                "value", name=f"{name}_rows"
            )
            values = (
                sa.cast(sa.func.json_extract(each.c.value, f"$[{number}]"), kind).label(column)
                for number, (column, kind) in enumerate(columns.items())
            )
            self.table = sa.select(*values).subquery(name)
            return
        # PostgreSQL takes JSON for 100 rows, and for so many it reads a table of some thousand entries as a whole.
        arrays = (
            sa.cast(sa.bindparam(f"{name}_{column}", type_=postgresql.ARRAY(kind)), postgresql.ARRAY(kind))
            for column, kind in columns.items()
        )
        typed = (sa.column(column, kind) for column, kind in columns.items())
        self.table = sa.func.unnest(*arrays).table_valued(*typed, name=name).render_derived()

    def parameters(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Return the parameters of a statement with the table, for these rows."""
        given = [tuple(row) for row in rows]
        if self._is_json:
            return {self._name: json.dumps(given)}
        columns = zip(*given, strict=True) if given else ((),) * len(self._columns)
        return {
            f"{self._name}_{column}": list(values)
            for column, values in zip(self._columns, columns, strict=True)
        }
