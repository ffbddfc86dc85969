"""`lanes local up` and `run`: the printed addresses, changes of files, and wrong usage."""

import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import ConfigurationError
from local.account import connection_variables
from local.changes import Files
from local.deploy import CdkApp
from local.deployed import make_client
from local.foreign_mappings import ForeignMappings
from local.function import DeployedFunction, FunctionSettings
from local.live_code import LiveCode
from local.state import build_folder, claimed, running
from local.unknowns import unknowns_of, variant_names
from local.up import Changes, FunctionTroubles, _explain, describe
from tests.support.command import ROOT, Typed

FIFO = {"FifoQueue": "true"}


@dataclass
class Deployed:
    """A platform after its deploy, as far as its addresses go."""

    endpoint_url: str
    outputs: dict = field(default_factory=dict)
    mappings: dict = field(default_factory=dict)

    def variables(self):
        return connection_variables(self.endpoint_url)

    def client(self, service):
        return make_client(service, self.endpoint_url)


@pytest.fixture(scope="module")
def queue(server):
    """A queue with its dead-letter queue."""
    sqs = make_client("sqs", server.endpoint_url)
    for name in ("up.fifo", "up-dead.fifo"):
        sqs.create_queue(QueueName=name, Attributes=FIFO)
    # What CloudFormation hands out names the host of the real SQS.
    return LaneQueues(
        url="https://sqs.eu-central-1.amazonaws.com/123456789012/up.fifo",
        dead_letter_url="https://sqs.eu-central-1.amazonaws.com/123456789012/up-dead.fifo",
    )


def test_lanes_of_an_own_stack_are_found_by_its_name(server, queue):
    """Its stack need not name the parameter among its outputs; the lanes command is led to it."""
    config = LanesConfig.from_dict({"lanes": [{"name": "ALL"}]})
    document = Deployment(config=config, queues={"ALL": queue}, table="up-ledger").to_json()
    platform = Deployed(server.endpoint_url, outputs={"Other": {}, "Up": {}})
    platform.client("ssm").put_parameter(Name="/lanes/Up", Value=document, Type="String")

    told = describe(platform)
    text = _explain(told, Path("/an/app/build/local"))

    assert (told["stack"], told["table"]) == ("Up", "up-ledger")
    assert told["lanes"]["ALL"] == f"{server.endpoint_url}/123456789012/up.fifo"
    assert told["dead_letters"]["ALL"] == f"{server.endpoint_url}/123456789012/up-dead.fifo"
    assert "\n  export LANES_STACK=Up\n" in text
    assert "\nLogs of server, deploy and functions: /an/app/build/local/logs\n" in text
    assert "add --endpoint-url" in text


def test_an_app_without_lanes_has_its_queues_by_their_names(server, queue):
    """And no stack to lead to."""
    mappings = {"uuid": SimpleNamespace(queue_name="up.fifo")}
    platform = Deployed(server.endpoint_url, outputs={"Another": {}}, mappings=mappings)

    told = describe(platform)

    assert told["lanes"] == {"up.fifo": f"{server.endpoint_url}/123456789012/up.fifo"}
    assert "stack" not in told
    assert "LANES_STACK" not in _explain(told, Path("/an/app/build/local"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "Init failed: NameError: name 'x' is not defined",
            "Init failed: NameError: name 'x' is not defined",
        ),
        (
            "Init failed: ConfigurationError: handler:\n  - kind",
            "Init failed: ConfigurationError: handler:\n  - kind",
        ),
        ("RequestId: 7 Error: Runtime exited with status -9", "Runtime exited with status -9"),
        ("RequestId: 7 Error: Task timed out after 30.00 seconds", "Task timed out after 30.00 seconds"),
    ],
)
def test_a_function_in_trouble_is_told_once(line, told):
    """With the file that has the rest."""
    stream = io.StringIO()
    tell = FunctionTroubles(stream, Path("/an/app/build/local/logs"))

    for _ in range(2):
        tell("Orders", line)
    tell("Orders", "shipping order 7")

    assert stream.getvalue() == (
        f"Orders: {told}\n  see /an/app/build/local/logs/Orders.log\n"
        "  its messages return when their visibility timeout ends, or at once when you save a correction\n"
    )


def lambda_function(name, queue=None):
    """Give a function as deployed, the consumer of the lane on a queue or another one."""
    config = LanesConfig.from_dict({"lanes": [{"name": "ALL"}]})
    document = queue and Deployment(config=config, queues={"ALL": queue}, table="up-ledger").to_json()
    settings = FunctionSettings(
        name=name,
        arn=f"arn:aws:lambda:eu-central-1:1:function:{name}",
        handler="",
        runtime="",
        timeout=timedelta(seconds=30),
        memory_mb=128,
        code_sha256="",
        code_location="",
        log_group="",
        variables={"LANES_DEPLOYMENT": document} if document else {},
    )
    return DeployedFunction(
        settings, task_root=Path(), endpoint_url="", machine={}, write_line=lambda _name, _line: None
    )


def test_a_mapping_of_a_queue_that_is_no_lane_is_shown_once(queue):
    """
    Also one that comes later or is enabled later.

    Those of a function that sends, which has the lanes' document too, and of others are not.
    """
    consumer, sender, other = (
        lambda_function("Consumer", queue),
        lambda_function("Sender", queue),
        lambda_function("X"),
    )
    mappings = {
        str(number): SimpleNamespace(queue_name=name, function=function, enabled=True)
        for number, (name, function) in enumerate(
            [("up.fifo", consumer), ("jobs.fifo", sender), ("up.fifo", other), ("orders", other)]
        )
    }
    stream = io.StringIO()
    foreign = ForeignMappings(SimpleNamespace(mappings=mappings), stream)
    foreign.look()
    assert stream.getvalue() == ""

    mappings["7"] = SimpleNamespace(queue_name="orders", function=consumer, enabled=False)
    foreign.look()
    assert stream.getvalue() == ""

    mappings["7"].enabled = True
    foreign.look()
    foreign.look()

    assert stream.getvalue() == (
        "Consumer: mapping 7 brings it messages of orders, which is not a lane: each batch fails\n"
        "  lanes check describes what to do\n"
    )


def test_variants_are_those_of_the_simulator_that_this_machine_can_show():
    """Not latencies and noise."""
    names = variant_names()

    assert {"backoff up to 10 s", "throttled batches dropped", "two pollers, slow ramp"} <= {*names}
    assert {"counts 5 s old", "groups in turn", "short polls miss 1 in 3"} <= {*names}
    assert not {"calls of 25 ms, spread", "counts wrong by a third", "receives of 25 ms"} & {*names}


def test_variants_are_combined():
    """Each changes its own part."""
    unknowns = unknowns_of(["counts 5 s old", "groups in turn", "throttled batches dropped"])

    assert (unknowns.stale, unknowns.group_order, unknowns.backoff.retries) == (5.0, "turn", False)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--port", "70000"], "Input should be less than or equal to 65535"),
        (["--port", "moto"], "Input should be a valid integer"),
        (["--stgae", "demo"], "No such option: --stgae"),
        (["-c", "stage"], "it takes KEY=VALUE, not 'stage'"),
        (["--variant", "counts 6 s old"], "there is no variant 'counts 6 s old'; known are "),
        (["/nowhere"], "/nowhere is no CDK app: it has no cdk.json"),
    ],
)
def test_wrong_usage_starts_nothing_and_names_the_option(options, complaint):
    """With the status of wrong usage."""
    done = Typed()("local", "up", *options)

    assert done.returncode == 2
    assert complaint in " ".join(done.stderr.replace("│", " ").split())
    assert not Path("/nowhere").exists()


@pytest.fixture
def app(tmp_path):
    """Give the folder of an app with one function."""
    (tmp_path / "function").mkdir()
    (tmp_path / "function" / "handler.py").write_text("A = 1\n")
    watch = {"include": ["*.toml", "function/**"], "exclude": ["**/notes"]}
    (tmp_path / "cdk.json").write_text(json.dumps({"watch": watch}))
    build_folder(tmp_path).mkdir(parents=True)
    return tmp_path


def test_files_that_the_app_watches_are_seen_when_they_change(app):
    """New, changed and removed ones; not those that it excludes, of tools, or hidden."""
    before = Files.of(app)
    os.utime(app / "function" / "handler.py", (1, 1))
    for name in ("lanes.toml", "README.md", "function/.swp", "function/notes", "build/local/x.toml"):
        (app / name).write_text("")
    after = Files.of(app)

    assert after.changed_since(before) == ["function/handler.py", "lanes.toml"]
    (app / "lanes.toml").unlink()
    assert Files.of(app).changed_since(after) == ["lanes.toml"]


def test_an_app_that_says_nothing_about_watching_is_watched_whole(app):
    """Hidden files and results apart; a half-written cdk.json is no reason to stop."""
    for text in ("{}", "{"):
        (app / "cdk.json").write_text(text)

        assert set(Files.of(app).times) == {"cdk.json", "function/handler.py"}


def test_a_running_app_is_found_by_its_folder(app):
    """As long as it runs and answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        variables = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "LANES_STACK": "Up"}
        with claimed(app) as record:
            record(variables)
            assert running(app) == variables
        with pytest.raises(ConfigurationError, match="does not run on this machine: start it"):
            running(app)

    with claimed(app) as record:
        record(variables)
        with pytest.raises(ConfigurationError, match="does not run"):
            running(app)


def test_a_second_platform_of_a_folder_is_refused_with_the_address_of_the_first(app):
    """Nothing of the first changes; after its end, also by a kill, there may be another one."""
    code = (
        "import sys, time; from pathlib import Path; from local.state import claimed\n"
        "with claimed(Path(sys.argv[1])) as record:\n"
        "    print('claimed', flush=True)\n"
        "    input()\n"
        "    record({'AWS_ENDPOINT_URL': 'http://127.0.0.1:9'})\n"
        "    print('runs', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(app)]
    with subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as first:
        try:
            first.stdout.readline()
            beginning = lanes_process("local", "up", str(app))
            first.stdin.write("\n")
            first.stdin.flush()
            first.stdout.readline()
            second = lanes_process("local", "up", str(app))
            recorded = (build_folder(app) / "running.json").read_text()
        finally:
            first.kill()

    assert (beginning.returncode, second.returncode) == (1, 1)
    assert f"{app} is being deployed already: reach it with `lanes local run`, or stop" in beginning.stderr
    assert f"{app} runs already at http://127.0.0.1:9: reach it with `lanes local run`" in second.stderr
    assert json.loads(recorded) == {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    assert not (build_folder(app) / "logs").exists()
    with claimed(app) as record:
        record({})


def test_a_command_runs_with_the_addresses_of_the_app_and_its_own_options(app, capfd):
    """Options behind it are its own, and no setting of yours that could lead a call elsewhere reaches it."""
    code = (
        "import os, sys; print(os.environ['LANES_STACK'], sys.argv[1:], "
        "sorted(name for name in os.environ if name.startswith('AWS_')))"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with claimed(app) as record:
            record({"AWS_ENDPOINT_URL": url, "LANES_STACK": "Up"})
            done = lanes_process(
                "local",
                "run",
                "--app",
                str(app),
                sys.executable,
                "-c",
                code,
                "--stage",
                "x",
                AWS_PROFILE="mine",
                AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1",
                AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true",
            )
            missing = lanes_process("local", "run", "--app", str(app), "no-such-command")

    names = ["AWS_CONFIG_FILE", "AWS_ENDPOINT_URL", "AWS_SHARED_CREDENTIALS_FILE"]
    assert done.stdout == f"Up ['--stage', 'x'] {names}\n", done.stderr
    assert (missing.returncode, "no-such-command can't be run: No such file" in missing.stderr) == (2, True)


def lanes_process(*arguments, **variables):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lanes", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_changed_code_runs_without_a_deploy(app, tmp_path_factory):
    """The deployed packages with the changed files; the deployed code itself stays as it was."""
    root = tmp_path_factory.mktemp("deployed")
    (root / "handler.py").write_text("A = 1\n")
    (root / "package.py").write_text("B = 1\n")
    function = Function(task_root=root)
    live = LiveCode(app, app / "build" / "local" / "code")
    live.find({"Orders": function}, Files.of(app).times)
    (app / "function" / "handler.py").write_text("A = 2\n")
    (app / "function" / "more.py").write_text("C = 1\n")

    assert live.run(["function/handler.py", "function/more.py"]) == {"Orders": None}
    (code,) = function.ran
    assert {path.name: path.read_text() for path in code.iterdir()} == {
        "handler.py": "A = 2\n",
        "package.py": "B = 1\n",
        "more.py": "C = 1\n",
    }
    assert (root / "handler.py").read_text() == "A = 1\n"


@pytest.mark.parametrize("changed", ["lanes.toml", "function/requirements.txt"])
def test_a_change_beyond_the_code_of_a_function_waits_for_the_deploy(app, changed):
    """Lanes are resources, and requirements need pip."""
    function = Function(task_root=app / "function")
    live = LiveCode(app, app / "build")
    live.find({"Orders": function}, Files.of(app).times)

    assert live.run([changed]) == {}
    assert function.ran == []


@pytest.mark.parametrize(
    ("fault", "more", "deploys"),
    [(None, [], 1), ("SyntaxError: x", [], 0), ("SyntaxError: x", ["lanes.toml"], 1)],
)
def test_code_that_cannot_be_imported_is_neither_live_nor_deployed(app, capsys, fault, more, deploys):
    """A change of other files may be the other half of it, and its deploy decides."""
    function = Function(task_root=app / "function", fault=fault)
    platform = Running({"Orders": function})
    changes = Changes(
        CdkApp(directory=app), platform, FunctionTroubles(io.StringIO(), app), LiveCode(app, app / "build")
    )
    changes.take_deploy(Files.of(app))
    capsys.readouterr()

    changes.take(["function/handler.py", *more], Files.of(app), saved_at=0.0)

    said = capsys.readouterr().err
    assert len(platform.deploys) == deploys
    assert ("not live, Orders runs its earlier code: SyntaxError: x" in said) == (fault is not None)
    assert ("live in Orders" in said) == (fault is None)
    assert ("not deployed: function/handler.py; save" in said) == (not deploys)
    assert ("Orders: messages of failed invocations that are visible again: 2" in said) == (fault is None)


def test_a_deploy_starts_the_functions_that_it_changed(app):
    """One that can't start shows it at once, and each deploy anew; messages that failed before are tried again."""
    stream = io.StringIO()
    troubles = FunctionTroubles(stream, app)
    function = Function(
        task_root=app / "function", on_start=lambda: troubles("Orders", "Init failed: NameError")
    )
    platform = Running({"Orders": function})
    changes = Changes(CdkApp(directory=app), platform, troubles, LiveCode(app, app / "build"))

    changes.take_deploy(Files.of(app))
    changes.take_deploy(Files.of(app))
    assert stream.getvalue().count("Init failed") == 1

    function.generation += 1
    changes.take_deploy(Files.of(app))
    assert stream.getvalue().count("Init failed") == 2
    assert platform.given_back == ["Orders", "Orders"]


@dataclass
class Function:
    """A deployed function, as far as its code is concerned."""

    task_root: Path
    ran: list = field(default_factory=list)
    name: str = "Orders"
    settings: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(handler="handler.lambda_handler")
    )
    fault: str | None = None
    on_start: Callable[[], None] = lambda: None
    generation: int = 0

    def run_code(self, task_root):
        self.ran.append(task_root)
        return self.fault

    def start(self):
        self.on_start()
        return True


@dataclass
class Running:
    """A platform, as far as a change of its app is concerned."""

    functions: dict
    deploys: list = field(default_factory=list)
    given_back: list = field(default_factory=list)

    def deploy(self, app):
        self.deploys.append(app)

    def give_back_failed(self, function):
        self.given_back.append(function.name)
        return 2
