"""`lanes work` as a process against AWS on this machine: it works, stops, and survives the end of its parts."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from lanes import LanesConfig, LanesError, Producer
from lanes.cli.main import command
from lanes.cli.target import Target
from lanes.cli.work import environment_of, with_slots
from lanes.config.deployment import Deployment, LaneQueues
from local.account import connection_variables
from tests.support.command import Typed
from tests.support.lanes_server import LanesOnServer
from tests.support.waiting import descendants, until, wait_for_end

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).resolve().parents[2]
STACKS = itertools.count()

HANDLERS = """
import os, subprocess, sys, time
from pathlib import Path

from lanes import Consumer, Producer

consumer = Consumer()


def note(text):
    with open("notes", "a") as notes:
        notes.write(f"{text}\\n")


@consumer.handler("quick")
def quick(message):
    note(f"done {message.data}")


@consumer.handler("sends")
def sends(message):
    Producer.from_env().send("quick", "urgent", group="u", priority=100)
    time.sleep(0.5)  # longer than the interval in which a slot looks at higher lanes
    note(f"done {message.data}")


@consumer.handler("gated")
def gated(message, context):
    note(f"began {message.data}")
    while not Path("open").exists() and (message.group == "firm" or context.remaining()):
        time.sleep(0.05)
    note(f"done {message.data}")


@consumer.handler("hangs")
def hangs(message, context):
    note(f"began {message.data}")
    if not Path("well").exists():
        Path("well").touch()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)
    note(f"done {message.data}")
"""


@pytest.fixture
def worker(aws, tmp_path):
    """Lanes with a stack of their own, and the command in a folder with handlers."""
    made = Worker(aws, tmp_path, stack=f"Work{next(STACKS)}")
    yield made
    made.end()


class Worker:
    """The command, the lanes that it serves, and the notes that its handlers take."""

    def __init__(self, server, folder, *, stack):
        self.server, self.folder, self.stack = server, folder, stack
        self.processes, self.lines, self.lanes = [], [], None
        (folder / "handlers.py").write_text(HANDLERS)

    def deploy(self, **consumer):
        """Make the lanes."""
        settings = {"engine": "pull", "function_timeout": "20s", **consumer}
        self.lanes = LanesOnServer(self.server.endpoint_url, stack=self.stack, consumer=settings)
        self.producer = Producer.from_deployment(self.lanes.deployment, endpoint_url=self.server.endpoint_url)
        return self

    def send(self, kind, *names, group=None, **options):
        """Send a message for each name."""
        for name in names:
            self.producer.send(kind, name, group=group or name, **options)

    def variables(self, **more):
        """Give the variables of the command, which has its lanes from the parameter."""
        return {
            **os.environ,
            **connection_variables(self.server.endpoint_url),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def start(self, *options, before=(), name="handlers:consumer", **variables):
        """Start the command, and collect the lines of its log."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lanes", "--stack", self.stack, *before, "work", *options, name],
            cwd=self.folder,
            env=self.variables(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - as in a shell
        )
        self.processes.append(process)
        threading.Thread(target=self._collect, args=(process,), daemon=True).start()
        return process

    def _collect(self, process):
        for line in process.stdout:
            self.lines.append(json.loads(line))

    def notes(self, word):
        """Give what the handlers have noted with a word, in order."""
        try:
            lines = (self.folder / "notes").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} ")]

    def events(self, name):
        """Give the fields of all events of a name."""
        return [line for line in self.lines if line.get("event") == name]

    def wait_for(self, word, count):
        """Wait for a number of notes."""
        until(lambda: len(self.notes(word)) >= count, why=f"fewer than {count} notes {word!r}")

    def end(self):
        """Kill all that still runs."""
        for process in self.processes:
            below = descendants(process.pid) if process.poll() is None else ()
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
            wait_for_end(below)


def stop(process, number=signal.SIGTERM):
    """Stop the command, and give its exit code."""
    process.send_signal(number)
    return process.wait(60)


def test_urgent_messages_come_first_also_those_sent_in_the_middle(worker):
    """One slot: the backlog of HIGH, then MAIN in order, and what a handler sends to HIGH before the rest of MAIN."""
    worker.deploy()
    worker.send("quick", "m1", "m2", group="g", priority=-50)
    worker.send("sends", "m3", group="g", priority=-50)
    worker.send("quick", "m4", "m5", group="g", priority=-50)
    worker.send("quick", "h1", "h2", group="g", priority=50)
    process = worker.start()

    worker.wait_for("done", 8)

    assert stop(process) == 0
    assert worker.notes("done") == ["h1", "h2", "m1", "m2", "m3", "urgent", "m4", "m5"]
    assert [(event["slot"], event["exit_code"]) for event in worker.events("slot_stopped")] == [(0, 0)]
    assert len(worker.events("message_handled")) == 8
    assert sum(worker.lanes.waiting(lane) for lane in ("HIGH", "MEDIUM", "MAIN")) == 0


def test_a_stop_in_the_middle_finishes_the_records_in_hand_and_loses_none(worker):
    """A handler sees no time left; the other records are visible at once, and the next process handles each once."""
    worker.deploy()
    names = [f"n{number}" for number in range(12)]
    worker.send("gated", *names)
    first = worker.start("--slots", "2")
    worker.wait_for("began", 2)

    assert stop(first) == 0
    assert sorted(worker.notes("done")) == sorted(worker.notes("began"))
    assert len(worker.notes("done")) == 2
    assert worker.lanes.waiting("MEDIUM") == 10

    (worker.folder / "open").touch()
    second = worker.start("--slots", "2")
    worker.wait_for("done", 12)

    assert stop(second, signal.SIGINT) == 130
    assert Counter(worker.notes("done")) == Counter(names)
    assert worker.lanes.waiting("MEDIUM") == 0


@pytest.mark.deep
def test_a_killed_slot_is_replaced_and_its_message_comes_again(worker):
    """When the visibility of the record in hand ends."""
    worker.deploy(function_timeout="5s", reserved_concurrency=2)
    worker.send("gated", "held", group="firm")
    process = worker.start()
    worker.wait_for("began", 1)
    until(lambda: len(worker.events("slot_started")) == 2)
    before = {event["slot"]: event["pid"] for event in worker.events("slot_started")}

    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(worker.events("slot_started")) == 4)
    (worker.folder / "open").touch()
    worker.wait_for("done", 1)

    assert worker.notes("began") == ["held", "held"]
    assert worker.notes("done") == ["held"]
    assert stop(process) == 0
    until(lambda: len(worker.events("slot_stopped")) == 4)
    assert [event["exit_code"] for event in worker.events("slot_stopped")] == [-9, -9, 0, 0]


@pytest.mark.deep  # the rule is tested with processes in memory
def test_a_handler_that_hangs_is_killed_with_the_programs_it_started(worker):
    """As Lambda ends an environment at its timeout; the message comes again."""
    worker.deploy(function_timeout="5s")
    worker.send("hangs", "stuck")
    process = worker.start()
    worker.wait_for("began", 1)
    until(lambda: len(descendants(process.pid)) == 2)
    hanging = descendants(process.pid)

    worker.wait_for("done", 1)

    wait_for_end(hanging)
    assert worker.notes("began") == ["stuck", "stuck"]
    (killed,) = worker.events("slot_killed")
    assert killed["reason"] == "timeout"
    assert stop(process) == 0


@pytest.mark.deep  # the rule is tested with processes in memory
def test_a_second_signal_kills(worker):
    """For an operator who can't wait; the exit code says that records were interrupted."""
    worker.deploy()
    worker.send("gated", "held", group="firm")
    process = worker.start()
    worker.wait_for("began", 1)
    below = descendants(process.pid)

    process.send_signal(signal.SIGINT)
    until(lambda: process.poll() is not None or not process.send_signal(signal.SIGINT))

    assert process.wait(60) == 1
    wait_for_end(below)
    assert [event["reason"] for event in worker.events("slot_killed")] == ["stop"]
    said = process.stderr.read()
    assert "serving HIGH, MEDIUM, MAIN with slots: 1; stop with Ctrl-C" in said
    assert "stopping: each slot finishes its record; another Ctrl-C" in said
    assert said.splitlines()[-1].startswith("error: slots were killed")


def test_slots_do_not_outlive_a_supervisor_that_is_killed(worker):
    """Otherwise they would work beside those of the next one."""
    worker.deploy(reserved_concurrency=2)
    worker.send("gated", "held", group="firm")
    process = worker.start()
    until(lambda: len(descendants(process.pid)) == 2)
    below = descendants(process.pid)
    worker.wait_for("began", 1)

    process.kill()

    wait_for_end(below)


SHADOWS = [
    "types",
    "json",
    "queue",
    "calendar",
    "email",
    "logging",
    "random",
    "select",
    "signal",
    "socket",
    "threading",
    "typing",
]


def test_the_lanes_may_come_from_the_environment(worker):
    """
    As in the function, without a parameter; a number of slots has its consequences there too.

    Beside the handlers lie files with the names of Python's modules: none of them is imported instead of Python's own,
    by the library, boto3 or the interpreter.
    """
    worker.deploy()
    worker.stack = "None"
    worker.send("quick", "one")
    for name in SHADOWS:
        (worker.folder / f"{name}.py").write_text(f"raise RuntimeError('{name}.py of the application')\n")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "lanes", "work", "--slots", "2", "handlers:consumer"],
        cwd=worker.folder,
        env=worker.variables(LANES_DEPLOYMENT=worker.lanes.deployment.to_json()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker.processes.append(process)

    worker.wait_for("done", 1)

    assert stop(process) == 0


def test_a_slot_that_can_only_crash_ends_the_command_with_its_last_line(worker):
    """A module that ends its process at import leaves nothing but that line."""
    worker.deploy()
    source = (
        "import os, sys\nsys.stderr.write('no licence for the driver\\n'); sys.stderr.flush(); os._exit(3)\n"
    )
    (worker.folder / "driver.py").write_text(source)

    code, text = refused(worker, "driver:consumer")

    assert code == 2
    assert (
        "ended 3 times before its first run, with exit code 3; its last line: no licence for the driver"
        in text
    )


def refused(worker, name):
    """Run the command to an error, and give its exit code and message."""
    process = worker.start(name=name)
    _, text = process.communicate(timeout=60)
    return process.returncode, text


def test_a_name_that_is_not_in_the_module_is_a_usage_error(worker):
    """No slot stays behind."""
    worker.deploy()

    code, text = refused(worker, "handlers:consumr")

    assert code == 2
    assert "handlers:consumr: there is no such name; did you mean 'consumer'?" in text
    assert len(worker.events("slot_started")) <= 1


def test_a_stack_with_mappings_is_refused_with_the_remedy(worker):
    """A process beside its function would use the resource too."""
    worker.deploy(engine="mappings")

    done = Typed(worker.server.endpoint_url)("--stack", worker.stack, "work", "handlers:consumer")

    assert done.returncode == 1
    assert f"stack {worker.stack}" in done.stderr
    assert 'set engine = "pull" in [consumer] of lanes.toml' in done.stderr


def deployment_of(**consumer):
    """Make a deployment that no server knows."""
    config = LanesConfig.from_dict({"consumer": {"engine": "pull", **consumer}})
    queues = {lane.name: LaneQueues(url=lane.name, dead_letter_url=lane.name) for lane in config.lanes}
    return Deployment(config=config, queues=queues, table="ledger", bell="bell")


def test_defaults_follow_the_number_of_slots():
    """As if the lanes had been deployed with it: each slot may serve each lane."""
    changed = with_slots(deployment_of(max_rate=6), 5)

    assert changed.config == deployment_of(max_rate=6, reserved_concurrency=5).config
    assert {lane.maximum_concurrency for lane in changed.config.lanes} == {5}
    assert with_slots(changed, None) is changed


def test_a_typed_profile_and_region_hold_in_the_slots(monkeypatch):
    """Keys in variables would have priority over a profile in a variable."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:2")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    target = Target(profile="work", region="eu-west-1", endpoint="http://127.0.0.1:1")

    variables = environment_of(target, deployment_of())

    assert "AWS_ACCESS_KEY_ID" not in variables
    assert variables["AWS_PROFILE"] == "work"
    assert variables["AWS_REGION"] == variables["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    # boto3 gives priority to these.
    assert not {"AWS_ENDPOINT_URL_SQS", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"} & set(variables)
    assert Deployment.from_env(variables) == deployment_of()


@pytest.mark.parametrize(("arguments", "sqs"), [([], 2), (["--endpoint", "http://127.0.0.1:3"], 3)])
def test_the_address_of_one_service_gives_way_to_a_typed_one_alone(monkeypatch, arguments, sqs):
    """For AWS's own tools AWS_ENDPOINT_URL_SQS has priority over AWS_ENDPOINT_URL."""
    found = []
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")

    def seen(target):
        found.append(target)
        raise LanesError("seen")

    monkeypatch.setattr(Target, "deployment", seen)

    with pytest.raises(LanesError, match="seen"):
        command().main([*arguments, "send", "order.placed", "null"], standalone_mode=False)
    (target,) = found
    addresses = [client.meta.endpoint_url for client in (target.clients().sqs(), target.clients().ssm())]

    assert addresses == [f"http://127.0.0.1:{sqs}", f"http://127.0.0.1:{3 if arguments else 1}"]
    assert target.environment(os.environ).get("AWS_ENDPOINT_URL_SQS") == (
        None if arguments else "http://127.0.0.1:2"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["handlers"], 2, "'handlers' is not of the form MODULE:CONSUMER"),
        (["--slots", "0", "a:b"], 2, "greater than or equal to 1"),
        (["--grace", "soon", "a:b"], 2, "--grace: 'soon' is not a duration"),
        (["--slot", "2", "a:b"], 2, "No such option: --slot"),
        ([], 2, "Missing argument"),
    ],
)
def test_wrong_arguments_are_named(typed, arguments, code, problem):
    """Before anything starts."""
    done = typed("work", *arguments)

    assert done.returncode == code
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("document", "problem"), [("lanes", "not a JSON document"), ("{}", "version None is not supported")]
)
def test_a_wrong_deployment_in_the_environment_is_named(typed, monkeypatch, document, problem):
    """It may be left over from another terminal."""
    monkeypatch.setitem(typed.variables, "LANES_DEPLOYMENT", document)
    done = typed("work", "a:b")

    assert done.returncode == 1
    assert "variable LANES_DEPLOYMENT" in done.stderr
    assert problem in done.stderr
