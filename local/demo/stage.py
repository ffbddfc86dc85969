"""A deployed stage of the demo: its lanes, its function, and its mappings switched on and off."""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from lanes import Producer
from lanes.aws.queues.lane_queue import NOTE_ATTRIBUTE
from lanes.config.deployment import Deployment
from local.account import REGION
from local.deploy import CdkApp, deploy
from local.deployed import make_session
from local.function_code import CodeStore
from local.installed import ROOT
from local.platform import Platform

from .evidence import Delivery, Figures

_WAITING = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
_IN_FLIGHT = "ApproximateNumberOfMessagesNotVisible"
_IMPORT = "import time; began = time.perf_counter(); import {}; print((time.perf_counter() - began) * 1000)"


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

    @classmethod
    def deploy(cls, platform: Platform, name: str, *, log_path: Path) -> "Stage":
        """Run a real `cdk deploy`, and switch the mappings off; raises `DeployError`."""
        app = CdkApp(directory=ROOT, stage=name, context={"removal": "destroy"})
        stage = cls(platform, name=name, outputs=deploy(app, platform.endpoint_url, log_path=log_path))
        stage.switch(enabled=False)
        return stage

    @cached_property
    def producer(self) -> Producer:
        """Finds the lanes by the stack's name, as any application does."""
        endpoint = self._platform.endpoint_url
        session = make_session()
        return Producer.from_stack(
            self.stack, region=REGION, endpoint_url=endpoint, session=session, source="demo"
        )

    @property
    def deployment(self) -> Deployment:
        """Its lanes and where they are."""
        return self.producer.deployment

    def switch(self, *, enabled: bool) -> None:
        """Switch its mappings on or off, as an operator would; they poll at once."""
        client = self._platform.client("lambda")
        # By name alone, those of the function's alias would be missing.
        for page in client.get_paginator("list_event_source_mappings").paginate():
            for mapping in page["EventSourceMappings"]:
                if self.function_name in mapping["FunctionArn"].split(":"):
                    client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)
        if enabled:
            self._platform.follow_now()

    def depths(self) -> dict[str, tuple[int, int]]:
        """Return how many messages wait and are in flight in each lane, the highest first."""
        found = {}
        for lane in self.deployment.config.lanes:
            counts = self._sqs.get_queue_attributes(
                QueueUrl=self.deployment.queues[lane.name].url, AttributeNames=[*_WAITING, _IN_FLIGHT]
            )["Attributes"]
            found[lane.name] = sum(int(counts[name]) for name in _WAITING), int(counts[_IN_FLIGHT])
        return found

    def deliveries(self) -> list[Delivery]:
        """Return all receives from its lanes so far."""
        names = {queues.url.rpartition("/")[2]: name for name, queues in self.deployment.queues.items()}
        return [
            Delivery(
                id=str(json.loads(receive.body)["id"]),
                lane=names[receive.queue],
                group=receive.group,
                sequence=receive.sequence,
                sent_at=receive.sent_at,
            )
            for receive in self._platform.receives()
            if receive.queue in names
        ]

    def take_dead_letters(self) -> list[tuple[str, str]]:
        """Take everything out of the dead-letter queues; return ids and reasons."""
        taken = []
        for queues in self.deployment.queues.values():
            url = queues.dead_letter_url
            wanted = {"QueueUrl": url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
            while messages := self._sqs.receive_message(**wanted).get("Messages"):
                for message in messages:
                    note = (
                        message.get("MessageAttributes", {}).get(NOTE_ATTRIBUTE, {}).get("StringValue", "{}")
                    )
                    reason = str(json.loads(note).get("reason", ""))
                    taken.append((str(json.loads(message["Body"])["id"]), reason))
                    self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def function_calls(self) -> dict[str, int]:
        """Return the number of the function's own AWS calls, by operation."""
        return self._platform.function_calls(self.function_name)

    def footprint(self, directory: Path) -> Figures:
        """Return the size of the function's unzipped code, and the fastest of three imports in a new process."""
        settings = self._platform.functions[self.function_name].settings
        store = CodeStore(s3=self._platform.client("s3"), directory=directory)
        root = store.task_root(settings.code_location, code_sha256=settings.code_sha256)
        program = _IMPORT.format(settings.handler.rpartition(".")[0].replace("/", "."))
        imports = [
            subprocess.run(
                [sys.executable, "-P", "-c", program],
                cwd=root,
                env={"PYTHONPATH": str(root)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            ).stdout
            for _ in range(3)
        ]
        size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
        return {"asset_megabytes": size / 1e6, "cold_import_milliseconds": min(map(float, imports))}
