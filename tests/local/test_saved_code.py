"""Saved code runs in place, in real processes; other changes are deployed."""

import io
import json
import os
import random
import re
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest

from local.deploy import CdkApp, DeployError
from local.function import DeployedFunction, FunctionSettings
from local.saved_code import Changes, CodeFolder, Files
from local.terminal import Terminal
from tests.support.waiting import until

SETTINGS = FunctionSettings(
    name="Orders",
    arn="arn:aws:lambda:eu-central-1:123456789012:function:Orders",
    handler="lanes.aws.entry_point.lambda_handler",
    variables={"LANES_HANDLER": "handler.handle"},
    runtime="python3.13",
    timeout=timedelta(seconds=20),
    memory_mb=256,
    code_sha256="first",
    code_location="",
    log_group="/aws/lambda/Orders",
)
SOURCE = """
import deployed_package, lanes.producer
{imports}
VERSION = {version}
def handle(event, context):
    return {{"version": VERSION, "file": __file__, "package": deployed_package.__file__}}
"""


def source(version, imports=""):
    """Write code that answers with its version."""
    return SOURCE.format(version=version, imports=imports)


@pytest.fixture
def app(tmp_path):
    """Give the folder of an app with one function, and what was deployed of it: trimmed, with a package."""
    deployed = tmp_path / "deployed"
    for folder in (tmp_path / "app" / "function", deployed / "lanes"):
        folder.mkdir(parents=True)
    (deployed / "deployed_package.py").write_text("")
    (deployed / "lanes" / "__init__.py").write_text("")
    for folder in (tmp_path / "app" / "function", deployed):
        (folder / "handler.py").write_text(source(0))
    (tmp_path / "app" / "cdk.json").write_text("{}")
    return tmp_path / "app"


@pytest.fixture
def function(app):
    """The deployed function."""
    made = DeployedFunction(
        SETTINGS,
        task_root=app.parent / "deployed",
        endpoint_url="http://127.0.0.1:9",
        machine=os.environ,
        write_line=lambda _name, _line: None,
    )
    yield made
    made.close()


@pytest.fixture
def code(app, function):
    """The function's folder, running in place."""
    made = CodeFolder(function, app / "function", kept=app.parent / "code" / "kept")
    made.take_packages(function.deployed_root)
    assert made.look() is None
    return made


def call(function):
    """Invoke the function; return its answer."""
    return json.loads(function.invoke(b"{}").payload)


def save(code, text, name="handler.py"):
    """Save a file of the function."""
    (code.folder / name).write_text(text)


def test_a_function_runs_from_its_folder_with_the_whole_library_and_its_deployed_packages(code):
    """The deployed asset had neither the library's producer nor the folder's later files."""
    answer = call(code.function)

    assert answer["file"] == str(code.folder / "handler.py")
    assert "packages-deployed" in answer["package"]
    assert not list(code.folder.rglob("__pycache__"))


def test_a_save_is_live_with_a_new_import_and_a_new_file(code):
    """In the process that takes the next event; looking again changes nothing."""
    save(code, "NAME = 'x'\n", "more.py")
    save(code, source(1, "from more import NAME; from lanes import Consumer, Producer"))

    assert re.fullmatch(r"handler.py, more.py: live in Orders \d+\.\d s after you saved", code.look())
    assert call(code.function)["version"] == 1
    (environment,) = code.function.environments
    pid = environment.pid
    os.utime(code.folder / "handler.py")
    assert (code.look(), code.look()) == (None, None)
    assert code.function.environments[0].pid == pid


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("def handle(event, context)\n", r"SyntaxError: .* \(handler.py, line 1\)"),
        (source(1, "import no_such_module"), r"No module named 'no_such_module'"),
    ],
)
def test_the_last_good_code_goes_on_while_the_saved_one_is_broken(code, broken, fault):
    """Also in a process that starts meanwhile; mended code runs in place again."""
    save(code, source(1))
    code.look()
    save(code, broken)

    report = code.look()
    code.function.environments[0].kill()

    assert re.match(r"handler.py: not live, Orders runs its earlier code: ", report)
    assert re.search(fault, report)
    until(lambda: call(code.function).get("version") == 1)
    save(code, source(2))
    assert "live in Orders" in code.look()
    assert call(code.function) | {"package": ""} == {
        "version": 2,
        "file": str(code.folder / "handler.py"),
        "package": "",
    }


def test_a_save_of_the_same_size_in_the_same_moment_is_seen(code):
    """No bytecode of the earlier one passes for it."""
    times = (1_000_000_000, 1_000_000_000)
    for version in (1, 2):
        save(code, source(version))
        os.utime(code.folder / "handler.py", ns=times)
        code._seen = None if version == 2 else code._seen
        code.look()

    assert call(code.function)["version"] == 2


def test_code_that_is_saved_again_while_it_is_imported_is_not_reported_as_live(code, monkeypatch):
    """The next look is at the later one, with both names."""
    run_code = code.function.run_code

    def run_late(place, *, is_current):
        save(code, "", "late.py")
        return run_code(place, is_current=is_current)

    monkeypatch.setattr(code.function, "run_code", run_late)
    save(code, source(1))
    assert code.look() is None
    assert call(code.function)["version"] == 0
    monkeypatch.undo()

    assert code.look().startswith("handler.py, late.py: live in Orders")
    assert call(code.function)["version"] == 1


@pytest.mark.parametrize("saves", [8, pytest.param(50, marks=pytest.mark.deep)])
def test_every_message_is_handled_by_code_that_was_saved_before_or_the_terminal_says_otherwise(code, saves):
    """Saves in a row at random moments: imports added, removed, broken, mended."""
    chance = random.Random(saves)
    reported, valid, stopped = [0], [0], threading.Event()
    handled, looking = [], threading.Lock()

    def send():
        while not stopped.is_set():
            least = reported[-1]
            answer = call(code.function)
            handled.append((least, answer.get("version"), valid[-1]))

    def work():
        while not stopped.is_set():
            with looking:
                saved = valid[-1]
                report = code.look()
                if report and ": live in" in report:
                    reported.append(saved)

    threads = [threading.Thread(target=run) for run in (send, work)]
    for thread in threads:
        thread.start()
    try:
        for version in range(1, saves + 1):
            stopped.wait(chance.choice([0.0, 0.05, 0.3, 1.0]))
            broken = chance.random() < 0.3
            imports = chance.choice(["", "import lanes.outbox", "from lanes import Producer"])
            if not broken:
                valid.append(version)
            save(code, source(version, "import no_such_module" if broken else imports))
        # Between two looks, so that one has its number.
        with looking:
            save(code, source(saves + 1))
            valid.append(saves + 1)
        until(lambda: reported[-1] == saves + 1)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()

    assert call(code.function)["version"] == saves + 1
    assert all(version in valid and least <= version <= newest for least, version, newest in handled), handled


@dataclass
class Running:
    """A platform, as far as a change of its app is concerned."""

    functions: dict
    deploys: list = field(default_factory=list)
    given_back: list = field(default_factory=list)
    fault: str = ""
    gate: threading.Event = field(default_factory=threading.Event)

    def deploy(self, app):
        self.deploys.append(app)
        self.gate.wait(60)
        if self.fault:
            raise DeployError(self.fault)

    def give_back_failed(self, function):
        self.given_back.append(function.name)
        return 2


@pytest.fixture
def platform(function):
    """A platform with the function."""
    return Running({"Orders": function})


@pytest.fixture
def changes(app, platform):
    """The changes of the app after its first deploy."""
    made = Changes(CdkApp(directory=app), platform, Terminal(io.StringIO(), app), app.parent / "code")
    made.begin(Files.of(app))
    return made


def test_code_is_live_while_a_deploy_of_other_files_goes_on(app, changes, platform, function, capsys):
    """And messages that earlier code failed on return; a change of code alone is never deployed."""
    (app / "lanes.toml").write_text("")
    changes.look()
    until(lambda: platform.deploys)
    (app / "function" / "handler.py").write_text(source(1))
    changes.look()

    assert call(function)["version"] == 1
    assert platform.given_back == ["Orders", "Orders"]
    said = capsys.readouterr().err
    assert "lanes.toml: deploying ..." in said
    assert "handler.py: live in Orders" in said
    platform.gate.set()
    until(lambda: changes.look() or "lanes.toml: deployed in" in capsys.readouterr().err)
    changes.look()
    assert len(platform.deploys) == 1


@pytest.mark.parametrize("name", ["app.py", "function/requirements.txt"])
def test_a_change_beyond_the_code_of_a_function_is_deployed(app, changes, platform, name, capsys):
    """A deploy that fails says so, and the next save tries again."""
    platform.fault = "no such region"
    platform.gate.set()
    for number in (1, 2):
        (app / name).write_text(f"# {number}\n")
        until(lambda: changes.look() or f"not deployed: {name}; save" in capsys.readouterr().err)

    assert len(platform.deploys) == 2


def test_kinds_of_the_code_are_known_to_the_terminal(app, changes):
    """To find the one that was meant."""
    (app / "function" / "handler.py").write_text(source(1) + "\n# @consumer.handler('order.placed')\n")
    changes.look()

    assert changes._terminal.kinds == {"order.placed"}


def test_a_function_whose_folder_is_not_in_the_app_runs_as_deployed(app, platform, tmp_path):
    """And is started ahead: one that can't start shows it now."""
    started = []
    other = SimpleNamespace(
        name="Relay",
        settings=SimpleNamespace(app_handler="relay.handle"),
        task_root=tmp_path,
        deployed_root=tmp_path,
        generation=0,
        start=lambda: started.append(1) or True,
    )
    platform.functions = {"Relay": other}

    Changes(CdkApp(directory=app), platform, Terminal(io.StringIO(), app), app.parent / "code").begin(
        Files.of(app)
    )

    assert started == [1]
