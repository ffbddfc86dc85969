"""The waits of a throttled batch between its tries, which AWS does not tell: the same for the emulated mapping."""

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleBackoff:
    """
    How long a throttled batch waits between its tries.

    # AWS: "Lambda continues to retry the message until the message's timestamp exceeds your queue's
    # visibility timeout" (Handling errors for an SQS event source in Lambda). The waits are not documented:
    # these numbers are ours.

    Attributes:
        initial: first wait.
        factor: growth from one wait to the next.
        longest: cap of a wait.
        jitter: share of a wait that chance takes off, 0 to 1.
    """

    initial: timedelta = timedelta(milliseconds=100)
    factor: float = 2.0
    longest: timedelta = timedelta(milliseconds=300)
    jitter: float = 0.2

    def wait(self, tries: int, *, left: timedelta, chance: random.Random) -> timedelta | None:
        """
        The wait after a throttled try, or None to let the batch go.

        Args:
            tries: throttled tries so far, from 1.
            left: what is left of the visibility timeout, counted from the receive.
            chance: source of the jitter, seeded by the caller.

        Returns:
            None when the visibility timeout would end first: the messages then come back by themselves,
            and the receive has been counted.
        """
        # Beyond some twenty doublings every wait is the longest one, and the power could overflow.
        grown = self.initial * self.factor ** min(tries - 1, 20)
        wait = min(grown, self.longest) * (1 - self.jitter * chance.random())
        return wait if wait < left else None
