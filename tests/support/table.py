"""The ledger's table in moto, as the stack makes it."""

from __future__ import annotations

import boto3

from lanes.testing.on_moto import create_ledger

TABLE = "ledger"


def create_table() -> None:
    """Create the table with its sparse index."""
    create_ledger(boto3.client("dynamodb"), TABLE)
