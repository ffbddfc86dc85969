"""Behaviour that AWS does not document, as settings of AWS on this machine, by the names of the simulator."""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from lanes.testing.fifo.message import GroupOrder

if TYPE_CHECKING or __package__ == "local":
    from simulator.parameters import Unknowns, all_variants
else:  # installed, both have other names
    from lanes_simulator.parameters import Unknowns, all_variants

__all__ = ["QueueUnknowns", "Unknowns", "unknowns_of", "variant_names"]

_EMULATED = frozenset(
    {
        "backoff",
        "winner",
        "first_pollers",
        "ramp",
        "stale",
        "blocked_counted",
        "group_order",
        "missed_polls",
    }
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnknowns:
    """The part that FIFO queues show, of the order those in high-throughput mode; see `simulator.parameters`."""

    group_order: GroupOrder = GroupOrder.OLDEST
    stale: float = 0.0
    blocked_counted: bool = True
    missed_polls: float = 0.0

    @classmethod
    def of(cls, unknowns: Unknowns) -> Self:
        """Take the part of a queue."""
        return cls(**{field.name: getattr(unknowns, field.name) for field in dataclasses.fields(cls)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the form that `to_json` wrote."""
        values = json.loads(text)
        return cls(**values | {"group_order": GroupOrder(values["group_order"])})

    def to_json(self) -> str:
        """Write as one line, for the environment of the server."""
        return json.dumps(dataclasses.asdict(self))


def variant_names() -> list[str]:
    """Return the variants of the simulator that this machine can show."""
    base = Unknowns()
    return [name for name, changed in all_variants(base).items() if _changes(base, changed) <= _EMULATED]


def unknowns_of(names: Sequence[str]) -> Unknowns:
    """Return the behaviour of these variants together."""
    unknowns = Unknowns()
    for name in names:
        unknowns = all_variants(unknowns)[name]
    return unknowns


def _changes(base: Unknowns, changed: Unknowns) -> set[str]:
    names = [field.name for field in dataclasses.fields(base)]
    return {name for name in names if getattr(base, name) != getattr(changed, name)}
