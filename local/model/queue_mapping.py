"""The event source mapping of a queue as it is deployed, and its records as Lambda sends them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from lanes.mapping.event import polled_record
from lanes.mapping.rules import MappingSettings

# AWS: arn:partition:lambda:region:account:function:name, and :qualifier (Lambda API reference, FunctionArn).
_PARTS = 7


def without_qualifier(arn: str) -> str:
    """Return the ARN of the function itself."""
    return ":".join(arn.split(":")[:_PARTS])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """One deployed mapping: its settings, its queue and its function."""

    uuid: str
    queue_arn: str
    function_arn: str
    settings: MappingSettings

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> Self:
        """Read an entry of ListEventSourceMappings."""
        return cls(
            uuid=configuration["UUID"],
            queue_arn=configuration["EventSourceArn"],
            function_arn=without_qualifier(configuration["FunctionArn"]),
            settings=MappingSettings.from_api(configuration),
        )

    @property
    def queue_name(self) -> str:
        """Name of the queue, the last part of its ARN."""
        return self.queue_arn.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class PolledMessage:
    """A message as ReceiveMessage returns it."""

    fields: Mapping[str, Any]

    @property
    def message_id(self) -> str:
        """Id of the message."""
        return str(self.fields["MessageId"])

    @property
    def receipt_handle(self) -> str:
        """Handle of this receive."""
        return str(self.fields["ReceiptHandle"])

    @property
    def group(self) -> str:
        """Message group; empty on a standard queue."""
        return str(self.fields.get("Attributes", {}).get("MessageGroupId", ""))

    def record(self, queue_arn: str) -> dict[str, Any]:
        """Return the record of the message in a Lambda event, attribute names in camel case."""
        return polled_record(self.fields, queue_arn=queue_arn)
