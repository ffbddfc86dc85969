"""The corrected AWS server with the queues and the parameter of a stack, for programs in processes of their own."""

from __future__ import annotations

import itertools
import json

from lanes.config import EngineName, LanesConfig
from local.account import USER_KEY, connection_variables
from local.deployed import make_client
from tests.support.operating import STACK, drain, make_deployment

LANES = {
    "consumer": {"engine": "mappings"},  # no bell is rung
    "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MEDIUM", "threshold": 0}, {"name": "MAIN"}],
}
NUMBERS = itertools.count()


class LanesOnServer:
    """
    Lanes without a consumer on an AWS server of this machine.

    Args:
        endpoint_url: of the server.
        stack: name of the stack; another one has other queues.
        outbox_table: the outbox's table in DynamoDB, if there is one.
        settings: as in `lanes.toml`.
    """

    def __init__(self, endpoint_url, *, stack=STACK, outbox_table=None, **settings):
        self.endpoint_url = endpoint_url
        self.stack = stack
        self.sqs = make_client("sqs", endpoint_url)
        config = LanesConfig.from_dict(settings)
        self.deployment = make_deployment(
            lambda service: make_client(service, endpoint_url),
            stack=stack,
            config=config,
            prefix=f"{stack}-",
            bell=config.consumer.engine is EngineName.PULL,
            outbox=outbox_table,
        )

    def variables(self):
        """Environment variables that lead a process here."""
        return connection_variables(self.endpoint_url, USER_KEY)

    def take(self, lane):
        """Take all messages out of a lane; return groups and events in the order of their delivery."""
        taken = drain(self.sqs, self.deployment.queues[lane].url)
        return [(one["Attributes"]["MessageGroupId"], json.loads(one["Body"])) for one in taken]

    def take_bodies(self, lane):
        """Take all messages out of a lane; return their bodies as they came."""
        return [one["Body"] for one in drain(self.sqs, self.deployment.queues[lane].url)]

    def waiting(self, *lanes):
        """Count the messages of some lanes, or of all."""
        counts = [
            self.sqs.get_queue_attributes(
                QueueUrl=self.deployment.queues[lane].url, AttributeNames=["ApproximateNumberOfMessages"]
            )
            for lane in lanes or self.deployment.queues
        ]
        return sum(int(one["Attributes"]["ApproximateNumberOfMessages"]) for one in counts)


class DeployedLanes(LanesOnServer):
    """Lanes to which a Spark job writes."""

    def __init__(self, endpoint_url):
        super().__init__(endpoint_url, stack=f"stack-{next(NUMBERS)}", **LANES)

    def options(self, **more):
        """Give the options of a write to these lanes."""
        place = {"deployment": self.deployment.to_json(), "endpointUrl": self.endpoint_url}
        return {**place, "kind": "a.kind", **more}

    def write(self, table, source="lanes", **options):
        """Write a table to these lanes."""
        table.write.format(source).mode("append").options(**self.options(**options)).save()
