"""An order and its message in one transaction of a SQL database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lanes import LanesConfig, Message, processing_priority
from lanes.outbox import SqlOutbox
from lanes.outbox.sql.schema import OutboxTables

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncSession


class Base(DeclarativeBase):
    """The tables of your application."""


class Order(Base):
    """One order."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str] = mapped_column(String(36))


outbox = SqlOutbox(config=LanesConfig())


def place_order(session: Session, order: Order) -> None:
    """Commit the order and its message together, or neither."""
    session.add(order)
    session.flush()  # The database makes the order's id.
    outbox.add(session, "order.placed", {"order": order.id}, group=order.customer)
    session.commit()


async def place_order_async(session: AsyncSession, order: Order) -> None:
    """Do the same in an asynchronous session."""
    session.add(order)
    await session.flush()
    await outbox.add_async(session, "order.placed", {"order": order.id}, group=order.customer)
    await session.commit()


def change_customer(session: Session, customer: str, change: Callable[[], None]) -> None:
    """Keep the order of commits for changes of one customer that several servers make at the same time."""
    outbox.lock_group(session, customer)
    change()
    outbox.add(session, "customer.changed", {"customer": customer}, group=customer)
    session.commit()


def remind_and_report(session: Session, order: Order) -> None:
    """Send a reminder in two weeks, and build the report of the day once for all its orders."""
    outbox.add(session, "invoice.remind", {"order": order.id}, not_before=timedelta(days=14))
    outbox.add(session, "report.build", {"day": "42"}, unique="nightly-42", on_duplicate="keep")
    session.commit()


def import_orders(session: Session, orders: list[Order]) -> None:
    """Give the messages of an import the priority of bulk work."""
    session.add_all(orders)
    session.flush()
    with processing_priority(-100):
        outbox.add_many(
            session,
            (
                Message(kind="order.placed", data={"order": order.id}, group=order.customer)
                for order in orders
            ),
        )
    session.commit()


# Adds the tables of the outbox to the schema, so that your migration tool finds them.
OutboxTables(metadata=Base.metadata)
