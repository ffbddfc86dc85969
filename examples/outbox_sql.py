"""An order and its message in one transaction of a SQL database."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lanes import LanesConfig, processing_priority
from lanes.outbox import Outbox
from lanes.outbox.sql_schema import OutboxTables


class Base(DeclarativeBase):
    """The application's own tables."""


class Order(Base):
    """One order."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    customer: Mapped[str] = mapped_column(String(36))


outbox = Outbox(config=LanesConfig())


def place_order(session: Session, order: Order) -> None:
    """Commit the order and its message together, or neither."""
    session.add(order)
    outbox.add(session, "order.placed", {"order": order.id}, group=order.customer)
    session.commit()


def import_orders(session: Session, orders: list[Order]) -> None:
    """Give the messages of an import the priority of bulk work."""
    with processing_priority(-100):
        for order in orders:
            session.add(order)
            outbox.add(session, "order.placed", {"order": order.id}, group=order.customer)
    session.commit()


# With this line the tables of the outbox belong to the schema that migration tools compare with the database.
OutboxTables(metadata=Base.metadata)
