"""The tests that guard each module, quick enough to run once for each of its mutants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Tests, the likeliest first, and the modules that they guard; `keyword` chooses among the tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    keyword: str = ""

    def paths(self):
        """Give the modules' paths, relative to the project."""
        found = {path for pattern in self.modules for path in ROOT.glob(pattern)}
        kept = (path for path in found if path.name != "__init__.py" or "    def " in path.read_text())
        return sorted(path.relative_to(ROOT) for path in kept)

    def arguments(self):
        """Give the arguments of pytest."""
        return [*self.tests, "-m", "not deep", *(("-k", self.keyword) if self.keyword else ())]


def _units(*names):
    return tuple(f"tests/unit/consumer/test_{name}.py" for name in names)


OUTBOX = (
    "tests/contract/test_o2_claims_and_retries.py",
    "tests/contract/test_o3_group_order_and_retention.py",
    "tests/contract/test_o1_written_in_your_transaction.py",
    "tests/contract/test_o4_lane_window.py",
    "tests/contract/test_o5_prioritise_and_cancel.py",
    "tests/outbox/test_store.py",
    "tests/contract/test_o2_concurrent_claims.py",
    "tests/contract/test_o7_locks_and_marks.py",
)
BATCHES = (
    "tests/contract/test_c1_no_loss.py",
    "tests/contract/test_c7_retries.py",
    "tests/contract/test_c8_effects_once.py",
    "tests/contract/test_c4_every_receive_is_reported.py",
)
SCHEDULING = (
    "tests/contract/test_c3_priority.py",
    "tests/contract/test_c11_crash_is_local.py",
    "tests/contract/test_c5_quick_return.py",
)
SLOW = "not any_mixture and not however_often and not 3000"  # each takes seconds, and others notice the same

NETS = {
    "consumer": (
        Net(
            modules=("lanes/consumer/*.py",),
            tests=(
                "tests/unit/test_data.py",
                *_units(
                    "corridor",
                    "settlement",
                    "delays",
                    "records",
                    "handlers",
                    "cached_ledger",
                ),
                *BATCHES,
                "tests/contract/test_c4_yield_is_no_failure.py",
                "tests/contract/test_c4_exception_groups.py",
                "tests/contract/test_c4_coroutine_handlers.py",
                "tests/contract/test_c1_unknown_kinds.py",
                "tests/contract/test_c1_reports_decide_nothing.py",
                "tests/contract/test_c2_order.py",
            ),
            keyword=SLOW,
        ),
        Net(
            modules=tuple(
                f"lanes/consumer/engines/{name}.py"
                for name in ("__init__", "mapped", "backlog", "check", "presence")
            ),
            tests=(
                *_units("backlog", "presence", "beside", "mapped_engine"),
                *SCHEDULING,
                "tests/consumer/test_fairness.py",
            ),
            keyword=f"not pull and {SLOW}",
        ),
        Net(
            modules=tuple(
                f"lanes/consumer/engines/{name}.py"
                for name in (
                    "pull",
                    "slot",
                    "slot_time",
                    "choice",
                    "hand_back",
                    "looks",
                    "order",
                    "pace",
                    "rate",
                )
            ),
            tests=(
                *_units("pull_slot", "pull_looks", "pull_pace", "pull_policy", "pull_rates", "reserve"),
                *SCHEDULING,
                "tests/contract/test_c10_slots.py",
                "tests/contract/test_c6_bounded_wait.py",
                "tests/testing/test_bell.py",
                "tests/simulation/test_pull_wake_ups.py",
                "tests/consumer/test_fairness.py",
            ),
            keyword=f"not mappings and {SLOW}",
        ),
        Net(
            modules=("lanes/consumer/interceptors/*.py",),
            tests=(
                "tests/contract/test_c8_effects_once.py",
                "tests/consumer/test_holds.py",
                "tests/consumer/test_overrides.py",
                "tests/consumer/test_fairness.py",
            ),
        ),
    ),
    "outbox": (
        Net(
            modules=("lanes/outbox/*.py",),
            tests=(
                "tests/outbox/test_rules.py",
                "tests/outbox/test_relay.py",
                "tests/contract/test_o6_outages.py",
                *OUTBOX,
                "tests/golden/test_wire.py",
                "tests/testing/test_outbox.py",
            ),
            keyword="not dynamodb and not postgresql and not 24h",
        ),
        Net(modules=("lanes/outbox/sql/*.py",), tests=OUTBOX, keyword="not dynamodb and not postgresql"),
        Net(
            modules=("lanes/outbox/dynamodb/*.py",),
            tests=(*OUTBOX, "tests/outbox/test_relay_function.py"),
            keyword="not sqlite and not postgresql",
        ),
    ),
    "spark": (
        Net(
            modules=(
                *(f"spark_jobs/{name}.py" for name in ("columns", "options", "parallelism")),
                *(f"spark_jobs/{folder}/*.py" for folder in ("manifest", "rows", "sending")),
                "lanes/producer/flow.py",
            ),
            tests=("tests/unit/spark_jobs", "tests/functional/test_manifest_storage.py"),
            keyword="not test_session",
        ),
    ),
}
