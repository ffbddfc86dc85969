"""Print the mappings that bring the function of lanes messages of a queue that is not a lane."""

from typing import TextIO

from lanes.aws.clients import deployment_from_env
from lanes.config.deployment import Deployment
from lanes.errors import AwsError, ConfigurationError

from .function import DeployedFunction
from .platform import Platform


class ForeignMappings:
    """Prints each such mapping once: no deploy refuses one that was made outside a stack."""

    def __init__(self, platform: Platform, stream: TextIO) -> None:
        self._platform = platform
        self._stream = stream
        self._seen: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Print the mappings that are new since the last call."""
        mappings = [
            (uuid, one.queue_name, one.function, one.enabled)
            for uuid, one in self._platform.mappings.items()
            if isinstance(one.function, DeployedFunction)
        ]
        # A disabled one brings nothing; it is shown when it is enabled.
        new = [one[:3] for one in mappings if one[3] and (one[0], one[2].name) not in self._seen]
        self._seen |= {(uuid, function.name) for uuid, _, function in new}
        for uuid, queue, function in new:
            lanes = self._lanes_of(function)
            # A function that only sends may have the lanes' document too, and a queue of its own.
            is_consumer = lanes is not None and any(
                lanes.reads(name) for _, name, other, _ in mappings if other is function
            )
            if lanes is not None and is_consumer and not lanes.reads(queue):
                self._stream.write(
                    f"{function.name}: mapping {uuid} brings it messages of {queue}, which is not a lane: each batch "
                    "fails\n  lanes check describes what to do\n"
                )
                self._stream.flush()

    def _lanes_of(self, function: DeployedFunction) -> Deployment | None:
        try:
            return deployment_from_env(function.settings.variables, ssm=lambda: self._platform.client("ssm"))
        except (AwsError, ConfigurationError):
            return None
