"""Deploys and destroys the stack of the probe by the `cdk` command, each to its end."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.errors import LanesError
from lanes.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lanes.probe.experiments import Plan

STACK = "LanesProbe"
INSTALLED, IN_CHECKOUT = "lanes_cdk", "cdk"
LAST_LINES = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# As the command says it, for any qualifier of the bootstrap stack.
_NOT_BOOTSTRAPPED = re.compile(r"SSM parameter /cdk-bootstrap/\S+ not found in (aws://\S+?)\.? ")


class StackError(LanesError):
    """The stack could not be deployed or destroyed; the message has the last lines of the `cdk` command."""


class ProbeStack:
    """
    The stack of one probe.

    Args:
        plan: times of the queues and functions.
        environment: variables of the `cdk` command, which select account and region.
        report: called with a line when an interrupt has to wait.
    """

    def __init__(self, plan: Plan, *, environment: Mapping[str, str], report: Callable[[str], None]) -> None:
        times = {
            key: getattr(plan, key)
            for key in ("single_timeout", "single_visibility", "many_timeout", "bell_groups")
        }
        self._context = ["-c", f"stack={STACK}", "-c", f"plan={json.dumps(times)}"]
        self._environment = dict(environment)
        self._report = report

    def deploy(self) -> tuple[dict[str, str], str]:
        """
        Deploy, and return the URLs of the queues by name and the name of the table.

        An interrupt waits for the end of the deployment, since a half-made stack can't be destroyed.

        Raises:
            StackError: there is no `cdk` command, or it failed.
        """
        with tempfile.TemporaryDirectory(prefix="lanes-probe-") as scratch:
            outputs = Path(scratch) / "outputs.json"
            self._cdk(
                "deploy",
                STACK,
                *("--require-approval", "never", "--method=direct", "--outputs-file", str(outputs)),
                scratch=scratch,
            )
            found: dict[str, Any] = json.loads(outputs.read_text())[STACK]
        return json.loads(found["Queues"]), found["Table"]

    def destroy(self) -> None:
        """
        Destroy, if there is a stack.

        Raises:
            StackError: the `cdk` command failed.
        """
        with tempfile.TemporaryDirectory(prefix="lanes-probe-") as scratch:
            try:
                self._cdk("destroy", STACK, "--force", scratch=scratch)
            except StackError as error:
                left = f"The stack {STACK} may be left, and its mappings cost money: delete it in CloudFormation."
                raise StackError(f"{error}\n{left}") from error

    def _cdk(self, *arguments: str, scratch: str) -> None:
        # The parser of the command would strip quotes around the whole.
        app = "exec " + shlex.join([sys.executable, str(app_file())])
        command = [_command(), *arguments, "--app", app, "--output", f"{scratch}/cdk.out", *self._context]
        log = Path(scratch) / "cdk.log"
        with log.open("wb") as lines, interrupts_at_the_end(arguments[0], self._report):
            # A session of its own: Ctrl-C must not reach it.
            status = subprocess.run(
                [*command, "--no-notices", "--no-version-reporting"],
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                check=False,
            ).returncode
        if status:
            raise StackError(_failure(arguments[0], status, log.read_text(errors="replace").strip()))


def app_file() -> Path:
    """Return the CDK app of the probe: `cdk/probe/app.py` of a checkout, or of the installed `lanes_cdk`."""
    beside = Path(__file__).resolve().parents[2]
    if (beside / "pyproject.toml").exists() and (beside / IN_CHECKOUT / "probe").exists():
        return beside / IN_CHECKOUT / "probe" / "app.py"
    found = importlib.util.find_spec(INSTALLED)
    if found is None or not found.submodule_search_locations:
        raise StackError(f"the constructs are not installed: {install_hint('cdk')}")
    return Path(found.submodule_search_locations[0]) / "probe" / "app.py"


@contextlib.contextmanager
def interrupts_at_the_end(task: str, report: Callable[[str], None]) -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back while something happens that must not be torn apart, and raise them at the end."""
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        came.append(number)
        report(f"interrupted: cdk {task} has to come to its end first; this takes a minute or two")

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def _command() -> str:
    found = shutil.which("cdk")
    if found is None:
        raise StackError("there is no cdk command: npm install -g aws-cdk, or run `make setup` in a checkout")
    return found


def _failure(task: str, status: int, said: str) -> str:
    missing = _NOT_BOOTSTRAPPED.search(said)
    if missing is not None:
        return (
            f"{missing[1]} is not bootstrapped, so the CDK cannot deploy there: run `cdk bootstrap {missing[1]}` once, "
            "then the probe again"
        )
    last = (f"  {line}" for line in said.splitlines()[-LAST_LINES:])
    return "\n".join([f"cdk {task} failed with status {status}:", *last])
