"""An order and its message in one transaction of a SQL database."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lanes import LanesConfig, processing_priority
from lanes.outbox import Outbox
from lanes.outbox.sql.schema import OutboxTables


class Base(DeclarativeBase):
    """The tables of your application."""


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


# Adds the tables of the outbox to the schema, so that your migration tool finds them.
OutboxTables(metadata=Base.metadata)
