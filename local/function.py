"""
A deployed function as its invokers see it: reserved concurrency in front of execution environments.

Settings and code come from the Lambda API of the AWS server alone.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from lanes.config.deployment import HANDLER_VARIABLE

from .account import REGION, function_key, isolated_variables
from .environment import EnvironmentSettings, ExecutionEnvironment, Invocation
from .slots import Slots, SlotWait

FunctionLineSink = Callable[[str, str], None]
SAVED_AGAIN = "it was saved again meanwhile"
"""Why code that was imported does not run."""

# Variables of this machine that a Python process cannot do without or that describe it.
_INHERITED = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """A function as GetFunction returns it; `arn` is the invoked one, with the alias if there is one."""

    name: str
    arn: str
    handler: str
    runtime: str
    timeout: timedelta
    memory_mb: int
    code_sha256: str
    code_location: str
    log_group: str
    variables: Mapping[str, str] = field(default_factory=dict)
    reserved_concurrency: int | None = None
    version: str = "$LATEST"

    @classmethod
    def from_api(cls, answer: Mapping[str, Any], *, arn: str, reserved_concurrency: int | None) -> Self:
        """Read an answer of GetFunction about an ARN, and the number of GetFunctionConcurrency."""
        configuration = answer["Configuration"]
        return cls(
            name=configuration["FunctionName"],
            arn=arn,
            handler=configuration.get("Handler") or "",
            runtime=configuration.get("Runtime") or "",
            timeout=timedelta(seconds=configuration["Timeout"]),
            memory_mb=configuration["MemorySize"],
            code_sha256=configuration["CodeSha256"],
            code_location=answer["Code"].get("Location", ""),
            log_group=configuration["LoggingConfig"]["LogGroup"],
            variables=dict((configuration.get("Environment") or {}).get("Variables", {})),
            reserved_concurrency=reserved_concurrency,
            version=configuration["Version"],
        )

    @property
    def app_handler(self) -> str:
        """The function in the app's own module, which the entry point of a consumer imports."""
        return self.variables.get(HANDLER_VARIABLE, self.handler)

    def same_environments(self, other: "FunctionSettings") -> bool:
        """Whether environments made for these settings may go on under the other ones."""
        # The location of the same code changes from answer to answer.
        alike: dict[str, Any] = {"reserved_concurrency": None, "code_location": ""}
        return replace(self, **alike) == replace(other, **alike)


class Place(NamedTuple):
    """
    Code that a function runs.

    Attributes:
        root: its folder.
        packages: folders with more packages.
        is_edited: its files are edited while it runs.
    """

    root: Path
    packages: tuple[Path, ...] = ()
    is_edited: bool = False


def process_variables(
    settings: FunctionSettings, *, place: Place, endpoint_url: str, machine: Mapping[str, str]
) -> dict[str, str]:
    """
    Every environment variable of an execution environment.

    # AWS: Working with Lambda environment variables, "Defined runtime environment variables"; a function's
    # own variables cannot replace the reserved ones.
    """
    return {
        **{name: machine[name] for name in _INHERITED if name in machine},
        "TZ": ":UTC",
        **settings.variables,
        **isolated_variables(endpoint_url, function_key(settings.name)),
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{settings.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": settings.name,
        "AWS_LAMBDA_FUNCTION_VERSION": settings.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(settings.memory_mb),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": settings.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
        "AWS_REGION": settings.arn.split(":")[3] or REGION,
        "LAMBDA_TASK_ROOT": str(place.root),
        "PYTHONPATH": os.pathsep.join(map(str, [place.root, *place.packages])),
        # Edited code that can't be imported does not start, where the entry point would return its messages.
        "_HANDLER": settings.app_handler if place.is_edited else settings.handler,
    }


class DeployedFunction:
    """
    Runs invocations up to the reserved concurrency and throttles the rest.

    Args:
        settings: as deployed now.
        task_root: its unzipped code.
        endpoint_url: the AWS server that the handler talks to.
        machine: environment variables of this machine.
        write_line: gets function name and each line that its processes print.
        slack: time beyond the timeout.
    """

    def __init__(
        self,
        settings: FunctionSettings,
        *,
        task_root: Path,
        endpoint_url: str,
        machine: Mapping[str, str],
        write_line: FunctionLineSink,
        slack: timedelta = timedelta(0),
    ) -> None:
        self._endpoint_url = endpoint_url
        self._machine = machine
        self._write_line = write_line
        self._slack = slack
        self._lock = threading.Lock()
        self._slots = Slots()
        self._warm: list[ExecutionEnvironment] = []
        self._busy: set[ExecutionEnvironment] = set()
        self._closed = False
        self._settings = settings
        self._place = Place(task_root)
        self._deployed_root = task_root
        self._follows_deploys = True
        self._template = self._environment_settings()
        self._generation = 0
        self._made: dict[ExecutionEnvironment, int] = {}
        self.invocations = 0
        self.throttles = 0

    @property
    def settings(self) -> FunctionSettings:
        """The function as deployed now."""
        return self._settings

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._settings.name

    @property
    def task_root(self) -> Path:
        """The code that runs."""
        return self._template.task_root

    @property
    def deployed_root(self) -> Path:
        """The code of the last deploy."""
        return self._deployed_root

    @property
    def is_leaving(self) -> bool:
        """Whether an invocation still runs earlier code."""
        with self._lock:
            return any(self._made[one] != self._generation for one in self._busy)

    @property
    def generation(self) -> int:
        """Number of its code and settings: another one has environments of its own."""
        return self._generation

    @property
    def environments(self) -> tuple[ExecutionEnvironment, ...]:
        """Every environment there is, warm or busy, for tests that kill one."""
        with self._lock:
            return (*self._warm, *self._busy)

    def invoke(self, payload: bytes, wait: SlotWait | None = None) -> Invocation:
        """
        Run the handler on an event, or throttle at once when the reserved concurrency is used up.

        Args:
            payload: the event.
            wait: of `queue_for_slot`; it ends.
        """
        environment = self._take(wait)
        if environment is None:
            return Invocation(throttled=True)
        try:
            return environment.invoke(payload)
        finally:
            self._give_back(environment)

    def queue_for_slot(self, rank: int) -> SlotWait:
        """Queue for the next free slot; end the wait by `invoke` or `leave`."""
        wait = SlotWait(rank)
        with self._lock:
            self._slots.queue(wait, self._settings.reserved_concurrency)
        return wait

    def leave(self, wait: SlotWait) -> None:
        """Queue no more."""
        with self._lock:
            self._slots.leave(wait, self._settings.reserved_concurrency)

    def update(self, settings: FunctionSettings, *, task_root: Path) -> None:
        """
        Follow a deploy.

        # AWS: a change of code or configuration makes new environments; invocations that run end in their
        # old one (Understanding the Lambda execution environment lifecycle).
        """
        with self._lock:
            same = settings.same_environments(self._settings)
            self._settings = settings
            self._deployed_root = task_root
            if self._follows_deploys:
                self._place = Place(task_root)
            self._slots.offer(settings.reserved_concurrency)
            stale = [] if same else self._switch()
        for environment in stale:
            environment.close()

    def run_code(self, place: Place, *, is_current: Callable[[], bool] = lambda: True) -> str | None:
        """
        Run this code from the next invocation on, also after later deploys.

        Args:
            place: the code.
            is_current: tells, once the code is imported, whether it still is what should run.

        Returns:
            Why the code does not run and the earlier one goes on, None if it runs.
        """
        while True:
            template = self._environment_settings(place)
            environment, fault = self._started(template)
            if fault is None and not is_current():
                fault = SAVED_AGAIN
                environment.close()
            if fault is not None:
                return fault
            with self._lock:
                # A deploy may have changed its settings meanwhile.
                current = template == self._environment_settings(place)
                if current:
                    self._place, self._follows_deploys = place, False
                stale = self._switch() if current else [environment]
                template = self._template
            for one in stale:
                one.close()
            if current:
                self._keep_warm(environment, template)
                return None

    def start(self) -> bool:
        """Start an environment ahead of the first invocation; return whether it started, or else log why not."""
        template = self._template
        environment, fault = self._started(template)
        if fault is None:
            self._keep_warm(environment, template)
        else:
            self._write_line(self.name, f"Init failed: {fault}")
        return fault is None

    def _started(self, template: EnvironmentSettings) -> tuple[ExecutionEnvironment, str | None]:
        """Return a started environment, or a closed one and why it does not start."""
        environment = self._environment(template)
        fault: str | None = "interrupted"
        try:
            fault = environment.start()
        finally:
            if fault is not None:
                environment.close()
        return environment, fault

    def _switch(self) -> list[ExecutionEnvironment]:
        """Make new environments from now on, and return the warm ones, to be closed outside of the lock."""
        self._template = self._environment_settings()
        self._generation += 1
        stale, self._warm = self._warm, []
        return stale

    def _keep_warm(self, environment: ExecutionEnvironment, template: EnvironmentSettings) -> None:
        with self._lock:
            # A deploy or the end may have come meanwhile.
            current = template is self._template and not self._closed
            if current:
                self._made[environment] = self._generation
                self._warm.append(environment)
        if not current:
            environment.close()

    def close(self) -> None:
        """End every environment; running invocations end as crashes."""
        with self._lock:
            self._closed = True
            environments = [*self._warm, *self._busy]
            self._warm = []
        for environment in environments:
            environment.close()

    def _environment_settings(self, place: Place | None = None) -> EnvironmentSettings:
        settings, place = self._settings, place or self._place
        variables = process_variables(
            settings, place=place, endpoint_url=self._endpoint_url, machine=self._machine
        )
        return EnvironmentSettings(
            function_arn=settings.arn,
            handler=variables["_HANDLER"],
            task_root=place.root,
            timeout=settings.timeout + self._slack,
            variables=variables,
            is_edited=place.is_edited,
        )

    def _take(self, wait: SlotWait | None) -> ExecutionEnvironment | None:
        with self._lock:
            if self._closed or not self._slots.take(self._settings.reserved_concurrency, wait):
                self.throttles += 1
                return None
            self.invocations += 1
            # The one used last is the warmest.
            environment = self._warm.pop() if self._warm else self._make()
            self._busy.add(environment)
            return environment

    def _make(self) -> ExecutionEnvironment:
        environment = self._environment(self._template)
        self._made[environment] = self._generation
        return environment

    def _environment(self, template: EnvironmentSettings) -> ExecutionEnvironment:
        name = self._settings.name
        return ExecutionEnvironment(template, write_line=lambda line: self._write_line(name, line))

    def _give_back(self, environment: ExecutionEnvironment) -> None:
        with self._lock:
            self._busy.discard(environment)
            self._slots.give_back(self._settings.reserved_concurrency)
            current = self._made[environment] == self._generation and not self._closed
            if current:
                self._warm.append(environment)
            else:
                del self._made[environment]
        if not current:
            environment.close()
