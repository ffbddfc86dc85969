"""
AWS on this machine as one object: server, deploy, mappings and functions, for tests, the demo and `lanes local`.

Everything that runs is read from the resources that `cdk deploy` created, and later deploys are followed.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from lanes.mapping.rules import ThrottleBackoff, start_order

from .account import MAPPING_KEY, USER_KEY, connection_variables
from .deploy import ROOT, CdkApp, bootstrap, deploy
from .deployed import CodeStore, Deployed, DeploymentReader, make_client
from .event_source_mapping import EventSourceMappingEmulator
from .function import DeployedFunction, FunctionSettings
from .invocations import InvokeEndpoint
from .log_delivery import FunctionLog, LogDelivery
from .polled_queue import QueueMapping, SqsQueue
from .schedules import QueueTarget, ScheduleEmulator, SchedulerEmulator
from .server import AwsServer, Receive, read_receives
from .stream_mapping import StreamMappingEmulator
from .unknowns import QueueUnknowns, Unknowns

BUILD = ROOT / "build" / "local"

_logger = logging.getLogger(__name__)
_FOLLOW_EVERY = timedelta(seconds=1)


class Platform:
    """
    AWS on this machine, with an app deployed into it, while the context lasts.

    Entering starts the server, deploys `app` if there is one and starts its mappings.

    Args:
        app: the app to deploy at the start; without one, call `deploy` yourself.
        port: of the server; 0 takes a free one.
        seed: decides the first poll order of the mappings and every jitter.
        unknowns: behaviour that AWS does not document: waits of throttled batches, free slots, growth of mappings, and
            queues; by default a throttled batch is tried every 0.3 s and the rest is as in the simulator.
        on_line: gets function name and each line that a function prints, beside the log files.
        build_directory: logs and unzipped code.
        run_mappings: start the mappings when entering; if not, `start_mappings` does.
        record_receives: record what the FIFO queues hand out, for `receives`.
        figures: publish the metrics of queues and functions in CloudWatch, minute by minute.
        slack: time that every function gets beyond its timeout, for tests on a busy machine.

    Raises:
        ServerError: the server did not start.
        DeployError: the deploy failed.
    """

    def __init__(
        self,
        *,
        app: CdkApp | None = None,
        port: int = 0,
        seed: int = 0,
        unknowns: Unknowns | None = None,
        on_line: Callable[[str, str], None] | None = None,
        build_directory: Path = BUILD,
        run_mappings: bool = True,
        record_receives: bool = False,
        figures: bool = False,
        slack: timedelta = timedelta(0),
    ) -> None:
        self._app = app
        self._seed = seed
        self._unknowns = unknowns or Unknowns(backoff=ThrottleBackoff())
        self._run_mappings = run_mappings
        self._slack = slack
        self._build = build_directory
        self._log = FunctionLog(build_directory / "logs", on_line=on_line)
        self._delivery = LogDelivery(group_of=self._log_group)
        self._receives_path = build_directory / "logs" / "receives.jsonl"
        self._server = AwsServer(
            port=port,
            log_path=build_directory / "logs" / "server.log",
            figures=figures,
            receives_path=self._receives_path if record_receives else None,
            unknowns=QueueUnknowns.of(self._unknowns),
        )
        self._invocations = InvokeEndpoint(self._function_to_invoke)
        self._invoked: set[str] = set()
        self._reader: DeploymentReader | None = None
        self._functions: dict[str, DeployedFunction] = {}
        self._mappings: dict[str, EventSourceMappingEmulator] = {}
        self._streams: dict[str, StreamMappingEmulator] = {}
        self._schedules: dict[str, ScheduleEmulator] = {}
        self._scheduler: SchedulerEmulator | None = None
        self._retired: list[EventSourceMappingEmulator | StreamMappingEmulator | ScheduleEmulator] = []
        self._outputs: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="follow deploys", daemon=True)

    @property
    def endpoint_url(self) -> str:
        """Address of every AWS service here."""
        return self._server.endpoint_url

    @property
    def outputs(self) -> Mapping[str, Mapping[str, str]]:
        """Outputs of the stacks deployed so far, by stack name."""
        return self._outputs

    @property
    def functions(self) -> Mapping[str, DeployedFunction]:
        """Functions behind the mappings and schedules, and those that were invoked, by name."""
        return {function.name: function for function in list(self._functions.values())}

    @property
    def mappings(self) -> Mapping[str, EventSourceMappingEmulator]:
        """Running mappings of queues, by their UUID; `mappings_of` finds those of one queue."""
        return dict(self._mappings)

    def mappings_of(self, queue_name: str) -> list[EventSourceMappingEmulator]:
        """Return the running mappings of a queue: one for each function that reads it."""
        return [mapping for mapping in list(self._mappings.values()) if mapping.queue_name == queue_name]

    @property
    def streams(self) -> Mapping[str, StreamMappingEmulator]:
        """Running mappings of streams, by the name of their table."""
        return {mapping.settings.table_name: mapping for mapping in list(self._streams.values())}

    @property
    def schedules(self) -> Mapping[str, ScheduleEmulator]:
        """Running schedules, by the ARN of their rule."""
        return dict(self._schedules)

    def variables(self) -> dict[str, str]:
        """Environment variables that lead an AWS SDK in any process to this machine."""
        return connection_variables(self.endpoint_url, USER_KEY)

    def client(self, service: str) -> Any:
        """A boto3 client of this machine."""
        return make_client(service, self.endpoint_url, access_key=USER_KEY)

    def calls(self, *, reset: bool = False) -> dict[str, dict[str, int]]:
        """AWS calls so far, by access key id and operation."""
        return self._server.calls(reset=reset)

    def receives(self) -> Iterator[Receive]:
        """Read what the FIFO queues have handed out so far, if `record_receives` was given."""
        return read_receives(self._receives_path)

    def start(self) -> None:
        """Start the server, deploy the app if there is one, run the mappings."""
        if self._app is not None:
            self._app.check()
        try:
            self._server.start(invocations=self._invocations.start())
            bootstrap(self.endpoint_url)
            self._delivery.start(self.endpoint_url)
            self._reader = DeploymentReader(self.endpoint_url)
            if self._app is not None:
                self.deploy(self._app)
            if self._run_mappings:
                self.start_mappings()
        except BaseException:
            self.stop()
            raise

    def deploy(self, app: CdkApp) -> Mapping[str, Mapping[str, str]]:
        """Run a real `cdk deploy` of `app`, follow it, and return the outputs of all stacks."""
        deploy(app, self.endpoint_url, log_path=self._build / "logs" / "deploy.log")
        assert self._reader is not None  # noqa: S101 - start came first
        self._outputs = self._reader.outputs()
        if self._follower.is_alive():
            self.follow_now()
        return self._outputs

    def start_mappings(self, *, follow: bool = True) -> None:
        """Run the deployed mappings; with `follow`, follow later deploys until `stop`, by reading once a second."""
        self.follow_now()
        self._scheduler = SchedulerEmulator(
            scheduler=make_client("scheduler", self.endpoint_url),
            sqs=make_client("sqs", self.endpoint_url),
            iam=make_client("iam", self.endpoint_url),
        )
        self._scheduler.start()
        if follow:
            self._follower.start()

    def follow_now(self) -> None:
        """Follow the deployed resources now instead of within a second."""
        assert self._reader is not None  # noqa: S101 - start came first
        with self._lock:
            if self._stopped.is_set():
                return
            # Within the lock: a function that is invoked for the first time must not be closed by an older reading.
            deployed = self._reader.read(functions=self._invoked)
            self._follow_functions(deployed)
            self._follow_mappings(deployed)
            self._follow_streams(deployed)
            self._follow_schedules(deployed)

    def give_back_failed(self, function: DeployedFunction) -> int:
        """Make the messages of a function's failed invocations visible now, for changed code; return their number."""
        mappings = list(self._mappings.values())
        return sum(one.give_back_failed() for one in mappings if one.function is function)

    def _follow(self) -> None:
        while not self._stopped.wait(_FOLLOW_EVERY.total_seconds()):
            try:
                self.follow_now()
            except Exception:
                # The border of a thread: a deploy that is half done is read again in a second.
                if not self._stopped.is_set():
                    _logger.exception("the deployed resources could not be read")

    def _follow_functions(self, deployed: Deployed) -> None:
        for arn, settings in deployed.functions.items():
            function = self._functions.get(arn)
            if function is None:
                self._functions[arn] = self._make_function(settings)
            elif function.settings != settings:
                function.update(settings, task_root=self._task_root(settings))
        for arn in self._functions.keys() - deployed.functions.keys():
            self._functions.pop(arn).close()

    def _follow_mappings(self, deployed: Deployed) -> None:
        self._retire(self._mappings, deployed.mappings)
        for uuid, mapping in self._mappings.items():
            now = deployed.mappings[uuid]
            timeout = deployed.queues[now.queue_arn].visibility_timeout
            mapping.update(now, visibility_timeout=timeout, function=self._functions[now.function_arn])
        # By queue first, so that the seed decides the same for the same queues.
        new = {
            f"{one.queue_name} {one.function_arn} {uuid}": one
            for uuid, one in deployed.mappings.items()
            if uuid not in self._mappings
        }
        # As they were made: the list of the server is in that order.
        positions = {uuid: place for place, uuid in enumerate(deployed.mappings)}
        for name in start_order(new, seed=self._seed):
            self._start_mapping(new[name], deployed, position=positions[new[name].uuid])

    def _start_mapping(self, mapping: QueueMapping, deployed: Deployed, *, position: int) -> None:
        queue = deployed.queues[mapping.queue_arn]
        emulator = EventSourceMappingEmulator(
            mapping,
            queue=SqsQueue(endpoint_url=self.endpoint_url, url=queue.url),
            function=self._functions[mapping.function_arn],
            visibility_timeout=queue.visibility_timeout,
            backoff=self._unknowns.backoff,
            scaling=self._unknowns.scaling,
            winner=self._unknowns.winner,
            position=position,
            seed=self._seed,
        )
        self._mappings[mapping.uuid] = emulator
        emulator.start()

    def _follow_streams(self, deployed: Deployed) -> None:
        self._retire(self._streams, deployed.streams)
        for uuid, settings in deployed.streams.items():
            if uuid in self._streams:
                self._streams[uuid].update(settings)
                continue
            self._streams[uuid] = StreamMappingEmulator(
                settings,
                streams=make_client("dynamodbstreams", self.endpoint_url, access_key=MAPPING_KEY),
                function=self._functions[settings.function_arn],
                write_note=self._write_note,
            )
            self._streams[uuid].start()

    def _follow_schedules(self, deployed: Deployed) -> None:
        self._retire(self._schedules, deployed.schedules)
        for arn, settings in deployed.schedules.items():
            if arn in self._schedules:
                self._schedules[arn].update(settings)
                continue
            self._schedules[arn] = ScheduleEmulator(
                settings, functions=self._functions, send=self._send_to_target
            )
            self._schedules[arn].start()

    def _retire(self, running: dict[str, Any], deployed: Mapping[str, object]) -> None:
        """Stop the running ones that are not deployed any more."""
        for name in running.keys() - deployed.keys():
            retired = running.pop(name)
            retired.stop()
            self._retired.append(retired)

    def _write_note(self, destination: str, note: str) -> None:
        """Put the note of a given-up batch into the queue that its mapping names."""
        self._send(destination, note)

    def _send_to_target(self, target: QueueTarget, body: str) -> None:
        # AWS: a FIFO target needs content-based deduplication, since EventBridge sets no id (EventBridge User Guide,
        # "Amazon SQS queues as targets").
        group = {} if target.group is None else {"MessageGroupId": target.group}
        self._send(target.queue_arn, body, **group)

    def _send(self, queue_arn: str, body: str, **more: str) -> None:
        sqs = make_client("sqs", self.endpoint_url)
        url = sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=body, **more)

    def _function_to_invoke(self, arn: str) -> DeployedFunction | None:
        """Return a deployed function, also one that no mapping has."""
        found = self._functions.get(arn)
        if found is not None or self._reader is None:
            return found
        with self._lock:
            settings = None if self._stopped.is_set() else self._reader.function(arn)
            if settings is None:
                return None
            self._invoked.add(arn)
            if arn not in self._functions:
                self._functions[arn] = self._make_function(settings)
            return self._functions[arn]

    def _make_function(self, settings: FunctionSettings) -> DeployedFunction:
        return DeployedFunction(
            settings,
            task_root=self._task_root(settings),
            endpoint_url=self.endpoint_url,
            machine=os.environ,
            write_line=self._take_line,
            slack=self._slack,
        )

    def _take_line(self, function_name: str, line: str) -> None:
        self._delivery.take(function_name, line)
        self._log.write(function_name, line)

    def _log_group(self, function_name: str) -> str:
        function = self.functions.get(function_name)
        return function.settings.log_group if function else f"/aws/lambda/{function_name}"

    def _task_root(self, settings: FunctionSettings) -> Path:
        store = CodeStore(s3=make_client("s3", self.endpoint_url), directory=self._build / "code")
        return store.task_root(settings.code_location, code_sha256=settings.code_sha256)

    def stop(self) -> None:
        """End mappings, environments and server."""
        self._stopped.set()
        with self._lock:
            mappings = [
                *self._mappings.values(),
                *self._streams.values(),
                *self._schedules.values(),
                *self._retired,
            ]
            functions = list(self._functions.values())
        self._invocations.stop()
        if self._scheduler is not None:
            self._scheduler.stop()
        for mapping in mappings:
            mapping.stop()
        for function in functions:
            function.close()
        self._delivery.stop()
        if self._scheduler is not None:
            self._scheduler.join()
        self._server.stop()
        if self._follower.ident is not None:
            self._follower.join()
        for mapping in mappings:
            mapping.join()
        self._log.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()
