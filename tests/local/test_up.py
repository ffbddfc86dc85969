"""`lanes local up` and `run`: the printed addresses, changes of files, and wrong usage."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues, pointer
from lanes.errors import ConfigurationError
from local.account import connection_variables
from local.deployed import make_client
from local.function import DeployedFunction, FunctionSettings
from local.saved_code import Files
from local.state import build_folder, claimed, running
from local.unknowns import unknowns_of, variant_names
from local.up import ForeignMappings, _explain, _last_line, describe
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


def test_the_step_of_a_deploy_is_the_last_line_of_its_log_and_not_of_an_earlier_one(tmp_path):
    """Before its command starts, AWS does."""
    log = tmp_path / "logs" / "deploy.log"
    log.parent.mkdir()
    assert _last_line(tmp_path, since=0.0) == "AWS starts on this machine"

    log.write_text("shop | 3/20 | CREATE_COMPLETE\n\n")
    assert _last_line(tmp_path, since=0.0) == "shop | 3/20 | CREATE_COMPLETE"
    assert _last_line(tmp_path, since=log.stat().st_mtime + 1) == "AWS starts on this machine"


def test_an_app_without_lanes_has_its_queues_by_their_names(server, queue):
    """And no stack to lead to."""
    mappings = {"uuid": SimpleNamespace(queue_name="up.fifo")}
    platform = Deployed(server.endpoint_url, outputs={"Another": {}}, mappings=mappings)

    told = describe(platform)

    assert told["lanes"] == {"up.fifo": f"{server.endpoint_url}/123456789012/up.fifo"}
    assert "stack" not in told
    assert "LANES_STACK" not in _explain(told, Path("/an/app/build/local"))


def lambda_function(name, queue=None, *, parameters=None):
    """Give a function as deployed, the consumer of the lane on a queue or another one; it may read a parameter."""
    config = LanesConfig.from_dict({"lanes": [{"name": "ALL"}]})
    document = queue and Deployment(config=config, queues={"ALL": queue}, table="up-ledger").to_json()
    if parameters is not None:
        parameters["p"], document = document, pointer("p", table="up-ledger")
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


@pytest.mark.parametrize("parameters", [None, {}], ids=["variable", "parameter"])
def test_a_mapping_of_a_queue_that_is_no_lane_is_shown_once(queue, parameters):
    """
    Also one that comes later or is enabled later.

    Those of a function that sends, which has the lanes' document too, and of others are not.
    """
    consumer, sender, other = (
        lambda_function("Consumer", queue, parameters=parameters),
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
    ssm = SimpleNamespace(get_parameter=lambda Name: {"Parameter": {"Value": parameters[Name]}})  # noqa: N803
    foreign = ForeignMappings(SimpleNamespace(mappings=mappings, client=lambda _service: ssm), stream)
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
        (["/nowhere"], "/nowhere is not a CDK app: it has no cdk.json. Change to the folder of your app"),
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

        assert set(Files.of(app).stamps) == {"cdk.json", "function/handler.py"}


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


def test_a_folder_that_cannot_be_written_to_is_refused_by_its_name(app):
    """Also by root, where a file is in the way."""
    shutil.rmtree(app / "build")
    (app / "build").write_text("")

    with pytest.raises(
        ConfigurationError, match=r"build/local: .*; logs and code of the running app need a folder"
    ):
        claimed(app).__enter__()


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
