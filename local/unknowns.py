"""Behaviour that AWS does not document, as settings of AWS on this machine, by the names of the simulator."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Self

from lanes.testing.fifo.settings import GroupOrder
from simulator.parameters import Unknowns, all_variants

_EMULATED = frozenset(
    {"backoff", "first_pollers", "ramp", "stale", "blocked_counted", "group_order", "missed_polls"}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnknowns:
    """
    The part that the FIFO queues show; see `simulator.parameters.Unknowns`.

    Attributes:
        group_order: None for the observed one, which depends on the throughput mode.

    """

    group_order: GroupOrder | None = None
    stale: float = 0.0
    blocked_counted: bool = True
    missed_polls: float = 0.0

    @classmethod
    def of(cls, unknowns: Unknowns) -> Self:
        """Take the part of a queue."""
        found = cls(**{field.name: getattr(unknowns, field.name) for field in dataclasses.fields(cls)})
        is_default = unknowns.group_order is Unknowns().group_order
        return dataclasses.replace(found, group_order=None) if is_default else found

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of `to_json`."""
        values = json.loads(text)
        order = values.pop("group_order", None)
        return cls(group_order=GroupOrder(order) if order else None, **values)

    def to_json(self) -> str:
        """Return it as text, for the variables of a process."""
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
