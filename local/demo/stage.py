"""A deployed stage of the demo: its lanes, its function, and its mappings switched on and off."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3

from lanes import Producer
from lanes.config.deployment import Deployment
from local.account import REGION, USER_KEY, connection_variables
from local.demo.evidence import DeadLetter, Delivery
from local.demo.figures import RunRules
from local.deploy import CdkApp, deploy
from local.function_code import CodeStore
from local.installed import ROOT
from local.platform import Platform
from local.receives import Receive

_DEAD_LETTER_NOTE = "lanes.dead_letter"
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """The counts of a lane's queue."""

    waiting: int
    in_flight: int

    @property
    def total(self) -> int:
        """Everything that is in the queue."""
        return self.waiting + self.in_flight


class Stage:
    """
    One stage of the app, deployed, with its mappings switched off until `resume`.

    Args:
        platform: where it is deployed.
        name: of the stage.
        outputs: of its stack, by the stack's name.
    """

    def __init__(self, platform: Platform, *, name: str, outputs: Mapping[str, Mapping[str, str]]) -> None:
        self.name = name
        [(self.stack, values)] = outputs.items()
        self.function_name = values["ConsumerFunctionName"]
        self._platform = platform
        self._sqs = platform.client("sqs")
        self._lambda = platform.client("lambda")

    @cached_property
    def producer(self) -> Producer:
        """Finds the lanes by the stack's name, as any application does."""
        variables = connection_variables(self._platform.endpoint_url, USER_KEY)
        session = boto3.Session(
            aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )
        return Producer.from_stack(
            self.stack,
            region=REGION,
            endpoint_url=self._platform.endpoint_url,
            session=session,
            source="demo",
        )

    @property
    def deployment(self) -> Deployment:
        """Its lanes and where they are."""
        return self.producer.deployment

    @property
    def lane_names(self) -> tuple[str, ...]:
        """Names of its lanes, highest first."""
        return tuple(lane.name for lane in self.deployment.config.lanes)

    def deliveries(self) -> list[Delivery]:
        """Return all receives from its lanes so far."""
        names = {queues.url.rpartition("/")[2]: name for name, queues in self.deployment.queues.items()}
        receives = self._platform.receives()
        return [_delivery(receive, names[receive.queue]) for receive in receives if receive.queue in names]

    @property
    def rules(self) -> RunRules:
        """Rules of a run, from its configuration."""
        config = self.deployment.config
        return RunRules(
            max_attempts=config.consumer.max_attempts,
            recheck_seconds=config.consumer.recheck_interval.total_seconds(),
            slots=config.consumer.reserved_concurrency,
            batch_size=config.last_lane.batch_size,
            idempotency=config.consumer.idempotency,
        )

    def pause(self) -> None:
        """Switch its mappings off, as an operator would."""
        self._switch(enabled=False)

    def resume(self) -> None:
        """Switch its mappings on, and have them poll at once."""
        self._switch(enabled=True)
        self._platform.follow_now()

    def _switch(self, *, enabled: bool) -> None:
        # By name alone, those of the function's alias would be missing.
        for page in self._lambda.get_paginator("list_event_source_mappings").paginate():
            for mapping in page["EventSourceMappings"]:
                if self.function_name in mapping["FunctionArn"].split(":"):
                    self._lambda.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)

    def depth(self, lane: str) -> Depth:
        """Ask the queue of a lane for its counts."""
        url = self.deployment.queues[lane].url
        answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(_COUNTS))["Attributes"]
        waiting, in_flight, delayed = (int(answer[name]) for name in _COUNTS)
        return Depth(waiting=waiting + delayed, in_flight=in_flight)

    def depths(self) -> dict[str, Depth]:
        """Ask all of them, highest lane first."""
        return {name: self.depth(name) for name in self.lane_names}

    def take_dead_letters(self) -> list[DeadLetter]:
        """Take everything out of the dead-letter queues."""
        return [letter for name in self.lane_names for letter in self._take_dead_letters(name)]

    def _take_dead_letters(self, lane: str) -> list[DeadLetter]:
        url = self.deployment.queues[lane].dead_letter_url
        taken: list[DeadLetter] = []
        while True:
            answer = self._sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            )
            messages = answer.get("Messages", [])
            if not messages:
                return taken
            for message in messages:
                taken.append(_dead_letter(message, lane))
                self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def function_calls(self) -> dict[str, int]:
        """Count the function's own AWS calls, by operation."""
        return self._platform.function_calls(self.function_name)

    def code(self, directory: Path) -> tuple[Path, str]:
        """Give the folder of the function's code and its handler."""
        settings = self._platform.functions[self.function_name].settings
        store = CodeStore(s3=self._platform.client("s3"), directory=directory)
        root = store.task_root(settings.code_location, code_sha256=settings.code_sha256)
        return root, settings.handler


def deploy_stage(platform: Platform, name: str, *, log_path: Path) -> Stage:
    """
    Run a real `cdk deploy` of a stage, and switch its mappings off.

    Raises:
        DeployError: the deploy failed.
    """
    app = CdkApp(directory=ROOT, stage=name, context={"removal": "destroy"})
    stage = Stage(platform, name=name, outputs=deploy(app, platform.endpoint_url, log_path=log_path))
    stage.pause()
    return stage


def _delivery(receive: Receive, lane: str) -> Delivery:
    return Delivery(
        id=str(json.loads(receive.body)["id"]),
        lane=lane,
        group=receive.group,
        sequence=receive.sequence,
        sent_at=receive.sent_at,
        receive_count=receive.receive_count,
    )


def _dead_letter(message: Mapping[str, Any], lane: str) -> DeadLetter:
    note = message.get("MessageAttributes", {}).get(_DEAD_LETTER_NOTE, {}).get("StringValue", "{}")
    return DeadLetter(
        id=str(json.loads(message["Body"])["id"]), lane=lane, reason=str(json.loads(note).get("reason", ""))
    )
