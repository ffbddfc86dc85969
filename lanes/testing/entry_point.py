"""The function's entry point, called with the events of a test in place of the consumer itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.consumer import Consumer

EntryPoint: TypeAlias = "Callable[[Any, Any], Any]"
"""A function as Lambda calls it: with the event and its context."""


@dataclass(frozen=True, slots=True)
class Environment:
    """
    One execution environment of a function.

    Attributes:
        consumer: handles its events.
        entry_point: called with them in place of the consumer if one is given.
        behind: the consumer that the entry point calls, whose place the other one takes.
    """

    consumer: Consumer
    entry_point: EntryPoint | None = None
    behind: Consumer | None = None

    def handle(self, event: Mapping[str, Any], context: Any) -> Any:
        """
        Handle an event and return the answer.

        Raises:
            TypeError: the entry point returned nothing.
        """
        if self.entry_point is None or self.behind is None:
            return self.consumer.handle(event, context)
        with self.behind.replaced_by(self.consumer):
            answer = self.entry_point(event, context)
        if answer is None:
            raise _dropped(self.entry_point)
        return answer


def _dropped(entry_point: EntryPoint) -> TypeError:
    name = getattr(entry_point, "__name__", repr(entry_point))
    return TypeError(
        f"{name} returned None in place of the consumer's answer; Lambda would delete every record, also those that "
        f"failed or yielded. Write `return consumer.handle(event, context)`, or `{name} = consumer.lambda_handler`"
    )
