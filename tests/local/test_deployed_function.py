"""Reserved concurrency and recycling of environments, with real processes."""

import io
import json
import os
import re
import sysconfig
import threading
import zipfile
from base64 import b64encode
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from local.deployed import CodeStore
from local.function import SAVED_AGAIN, DeployedFunction, FunctionSettings, Place, process_variables
from tests.support.waiting import until

SETTINGS = FunctionSettings(
    name="worker",
    arn="arn:aws:lambda:eu-central-1:123456789012:function:worker",
    handler="app.handle",
    runtime="python3.13",
    timeout=timedelta(seconds=20),
    memory_mb=256,
    code_sha256="first",
    code_location="",
    log_group="/aws/lambda/worker",
    variables={"STAGE": "first", "AWS_LAMBDA_FUNCTION_NAME": "forged"},
    reserved_concurrency=1,
)
SOURCE = """
import os, time
from pathlib import Path

def handle(event, context):
    if "gate" in event:
        Path(event["entered"]).touch()
        while not Path(event["gate"]).exists():
            time.sleep(0.01)
    return {"pid": os.getpid(), "stage": os.environ["STAGE"]}
"""


@pytest.fixture
def function(tmp_path):
    """A deployed function with one reserved slot."""
    (tmp_path / "app.py").write_text(SOURCE)
    lines = []
    deployed = DeployedFunction(
        SETTINGS,
        task_root=tmp_path,
        endpoint_url="http://127.0.0.1:9",
        machine=os.environ,
        write_line=lambda _name, line: lines.append(line),
    )
    deployed.lines = lines
    yield deployed
    deployed.close()


class _Held:
    """An invocation that runs until it is released."""

    def __init__(self, function, folder):
        gate, entered = folder / "gate", folder / "entered"
        event = json.dumps({"gate": str(gate), "entered": str(entered)}).encode()
        self._gate = gate
        self._thread = threading.Thread(target=lambda: setattr(self, "answer", function.invoke(event)))
        self._thread.start()
        until(entered.exists, why="the handler did not start")

    def release(self):
        self._gate.touch()
        self._thread.join()
        return json.loads(self.answer.payload)


def _call(function):
    return json.loads(function.invoke(b"{}").payload)


def test_reserved_concurrency_throttles_what_goes_beyond(function, tmp_path):
    """One slot: the second invocation is throttled at once, and runs once the slot is free."""
    held = _Held(function, tmp_path)

    throttled = function.invoke(b"{}")
    first = held.release()

    assert throttled.throttled
    assert _call(function)["pid"] == first["pid"]
    assert (function.invocations, function.throttles) == (2, 1)


def test_a_reserved_concurrency_of_none_at_all_throttles_everything(function, tmp_path):
    """Zero is how one stops a function."""
    function.update(replace(SETTINGS, reserved_concurrency=0), task_root=tmp_path)

    assert function.invoke(b"{}").throttled


def test_without_reserved_concurrency_a_second_environment_starts(function, tmp_path):
    """Two invocations at once run in two processes."""
    function.update(replace(SETTINGS, reserved_concurrency=None), task_root=tmp_path)
    held = _Held(function, tmp_path)

    second = _call(function)

    assert second["pid"] != held.release()["pid"]
    assert len(function.environments) == 2


def test_a_deploy_with_new_settings_replaces_warm_environments(function, tmp_path):
    """The next invocation sees the new variables in a new process."""
    before = _call(function)

    function.update(replace(SETTINGS, variables={"STAGE": "second"}), task_root=tmp_path)
    after = _call(function)

    assert (before["stage"], after["stage"]) == ("first", "second")
    assert after["pid"] != before["pid"]


def test_an_invocation_under_way_ends_in_its_old_environment(function, tmp_path):
    """A deploy disturbs nothing that runs, and the old process is not used again."""
    held = _Held(function, tmp_path)

    function.update(replace(SETTINGS, code_sha256="second"), task_root=tmp_path)
    old = held.release()

    assert old["stage"] == "first"
    assert _call(function)["pid"] != old["pid"]
    assert len(function.environments) == 1


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def handle(event, context)\n    pass\n", r"SyntaxError: .* \(app.py, line 1\)"),
        ("def handle(event, context):\n    pass\nhandel\n", r"NameError: .*'handel'.* \(app.py, line 3\)"),
        ("import no_such_module\n", r"Unable to import module 'app': No module named 'no_such_module'"),
    ],
)
def test_code_that_cannot_be_imported_does_not_replace_what_runs(function, tmp_path, source, fault):
    """The reason names the place in the function's code."""
    before = _call(function)
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "app.py").write_text(source)

    assert re.search(fault, function.run_code(Place(changed)))
    assert _call(function)["pid"] == before["pid"]
    assert function.task_root == tmp_path


def test_changed_code_is_started_before_its_first_invocation(function, tmp_path):
    """The process that has imported it takes the event."""
    _call(function)
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "app.py").write_text(SOURCE)

    assert function.run_code(Place(changed)) is None
    (started,) = function.environments
    assert _call(function)["pid"] == started.pid


def test_code_that_is_not_current_any_more_once_it_is_imported_does_not_run(function, tmp_path):
    """It was saved again meanwhile."""
    before = _call(function)

    assert function.run_code(Place(tmp_path), is_current=lambda: False) == SAVED_AGAIN
    assert _call(function)["pid"] == before["pid"]


def test_code_that_runs_in_place_stays_with_later_deploys_and_gets_their_settings(function, tmp_path):
    """A deploy that comes while it is imported as well."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "app.py").write_text(SOURCE)

    def deploy():
        function.update(replace(SETTINGS, variables={"STAGE": "second"}), task_root=tmp_path)
        return True

    assert function.run_code(Place(place), is_current=deploy) is None
    assert _call(function)["stage"] == "second"
    function.update(replace(SETTINGS, variables={"STAGE": "third"}), task_root=tmp_path)

    assert (_call(function)["stage"], function.task_root, function.deployed_root) == (
        "third",
        place,
        tmp_path,
    )


def test_a_function_that_is_started_ahead_has_a_warm_process_or_a_reason_in_its_log(function, tmp_path):
    """As at its first invocation."""
    assert function.start()
    (started,) = function.environments
    assert _call(function)["pid"] == started.pid

    (tmp_path / "app.py").write_text("handel\n")
    function.update(replace(SETTINGS, code_sha256="second"), task_root=tmp_path)

    assert not function.start()
    assert not function.environments
    assert function.lines[-1] == "Init failed: NameError: name 'handel' is not defined (app.py, line 1)"


def test_a_deploy_that_only_changes_concurrency_keeps_warm_environments(function, tmp_path):
    """Reserved concurrency is no setting of an environment."""
    before = _call(function)

    function.update(replace(SETTINGS, reserved_concurrency=5), task_root=tmp_path)

    assert _call(function)["pid"] == before["pid"]


def test_the_process_gets_its_variables_and_no_others(tmp_path):
    """Own variables, those of Lambda, and of this machine only what a process needs."""
    machine = {"PATH": "/bin", "AWS_PROFILE": "mine", "HOME": "/root", "PYTHONPATH": "/work"}

    variables = process_variables(SETTINGS, place=Place(tmp_path), endpoint_url="http://x", machine=machine)

    assert variables["STAGE"] == "first"
    assert variables["AWS_LAMBDA_FUNCTION_NAME"] == "worker"
    assert variables["AWS_ENDPOINT_URL"] == "http://x"
    assert variables["AWS_ACCESS_KEY_ID"] == "function_worker"
    assert variables["PYTHONPATH"] == variables["LAMBDA_TASK_ROOT"] == str(tmp_path)
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "256"
    assert not {"AWS_PROFILE", "HOME"} & variables.keys()


def test_a_free_slot_is_kept_for_the_lowest_rank_that_queues(function, tmp_path):
    """An invocation in between is throttled; the slot goes on once it has been used or left."""
    held = _Held(function, tmp_path)
    late, first, second = (function.queue_for_slot(rank) for rank in (2, 0, 1))
    held.release()

    assert [wait.offered.is_set() for wait in (late, first, second)] == [False, True, False]
    assert function.invoke(b"{}").throttled
    assert not function.invoke(b"{}", first).throttled
    assert [wait.offered.is_set() for wait in (late, second)] == [False, True]
    function.leave(second)
    assert late.offered.is_set()
    assert not function.invoke(b"{}", late).throttled
    assert not function.invoke(b"{}").throttled


def test_a_slot_that_is_free_already_is_kept_at_once(function):
    """It may become free between the throttle and the queue."""
    assert function.queue_for_slot(5).offered.is_set()


def test_packages_with_native_code_of_another_machine_are_left_out(tmp_path):
    """The asset is for Lambda's platform; a function on this machine imports what this environment has."""
    native = next(Path(msgspec.__file__).parent.glob("_core*.so")).read_bytes()
    elsewhere = native[:18] + b"\xff\xff" + native[20:64]
    ours = sysconfig.get_config_var("EXT_SUFFIX")
    files = {
        "handler.py": b"",
        "pure/__init__.py": b"",
        f"same/_core{ours}": native,
        "older/__init__.py": b"",
        "older/_core.cpython-39-x86_64-linux-gnu.so": native,
        "foreign/inside/_core.abi3.so": elsewhere,
        "foreign/other/_core.abi3.so": elsewhere,
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    s3 = SimpleNamespace(get_object=lambda **_: {"Body": io.BytesIO(archive.getvalue())})

    root = CodeStore(s3=s3, directory=tmp_path).task_root(
        "https://b.s3.amazonaws.com/k", code_sha256=b64encode(b"1" * 32).decode()
    )

    assert {file.name for file in root.iterdir()} == {"handler.py", "pure", "same"}
