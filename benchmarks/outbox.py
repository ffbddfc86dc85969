"""
`python -m benchmarks.outbox --json`: the price and speed of the outbox on this machine.

The last line is one JSON object. Costs are counted and hardly depend on the machine; times do, so each is
compared with the plain way in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks.outbox_claims import dynamodb_costs, postgresql_costs
from benchmarks.outbox_speed import (
    dynamodb_commit_to_send,
    postgresql_commit_to_send,
    publish_rates,
    urgent_behind_backlog,
)
from tests.support.postgres import PostgresServer

FULL = {
    "sizes": (100, 10_000, 100_000),
    "published": 2_000,
    "backlog": 50_000,
    "urgent": 1_000,
    "commits": 20,
}
QUICK = {"sizes": (100, 1_000), "published": 200, "backlog": 1_000, "urgent": 100, "commits": 3}


def measure(scale: dict[str, Any]) -> dict[str, Any]:
    """Run everything, with progress on standard error."""
    sizes = scale["sizes"]
    smallest, largest = sizes[0], sizes[-1]
    _say("claims in DynamoDB")
    dynamodb = dynamodb_costs(sizes)
    with PostgresServer() as server:
        _say("claims in PostgreSQL")
        postgresql = postgresql_costs(server.url, sizes)
        _say("publishing, beside a naive loop")
        rates = publish_rates(server.url, scale["published"])
        _say("urgent entries behind a backlog")
        urgent = urgent_behind_backlog(server.url, backlog=scale["backlog"], urgent=scale["urgent"])
        _say("from commit to send")
        latency = postgresql_commit_to_send(server.url, scale["commits"])
    latency |= dynamodb_commit_to_send(scale["commits"])

    def ratio(costs: dict[int, dict[str, float]], what: str) -> float:
        return round(costs[largest][what] / costs[smallest][what], 3)

    return {
        "claim_cost_ratio_100k_over_100": ratio(dynamodb, "read_units_per_claim"),
        "claim_rows_ratio_100k_over_100_postgresql": ratio(postgresql, "rows_per_claim"),
        "claim_buffers_ratio_100k_over_100_postgresql": ratio(postgresql, "buffers_per_claim"),
        **rates,
        **latency,
        **urgent,
        "dynamodb_claims": {str(size): cost for size, cost in dynamodb.items()},
        "postgresql_claims": {str(size): cost for size, cost in postgresql.items()},
        "scale": {name: value for name, value in scale.items() if name != "sizes"},
    }


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Costs and speed of the outbox.")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON line")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    figures = measure(QUICK if options.quick else FULL)
    if not options.json:
        for name, value in figures.items():
            sys.stdout.write(f"{name:<46} {value}\n")
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
