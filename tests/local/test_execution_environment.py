"""Execution environments with real processes running real handlers."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from local.environment import EnvironmentSettings, ExecutionEnvironment
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]

HANDLER = """
import os, sys, time

started = 0

def handle(event, context):
    global started
    started += 1
    print("handling", event.get("do"))
    return ACTIONS[event.get("do", "count")](event, context)

def fail(event, context):
    raise ValueError("no such customer")

def sleep(event, context):
    print("asleep", flush=True)
    time.sleep(60)

def tell(event, context):
    return {
        "name": context.function_name,
        "left": context.get_remaining_time_in_millis(),
        "arn": context.invoked_function_arn,
        "path": [one for one in sys.path if "site-packages" not in one],
        "root": os.environ["LAMBDA_TASK_ROOT"],
    }

ACTIONS = {
    "count": lambda event, context: {"pid": os.getpid(), "started": started},
    "fail": fail,
    "sleep": sleep,
    "tell": tell,
    "exit": lambda event, context: sys.exit(3),
    "crash": lambda event, context: os._exit(4),
    "echo": lambda event, context: event["text"],
    "large": lambda event, context: "x" * 7_000_000,
    "complain": lambda event, context: print("trouble", file=sys.stderr),
}
"""


class _Lines:
    """Collects lines and lets a test wait for one."""

    def __init__(self):
        self._changed = threading.Condition()
        self.seen = []

    def __call__(self, line):
        with self._changed:
            self.seen.append(line)
            self._changed.notify_all()

    def wait_for(self, text):
        with self._changed:
            assert self._changed.wait_for(lambda: any(text in one for one in self.seen), 60), self.seen


@pytest.fixture
def lines():
    """Lines that the process printed."""
    return _Lines()


@pytest.fixture
def make(tmp_path, lines):
    """Make an environment for a handler's source; closed at the end."""
    made = []

    def environment(source=HANDLER, *, timeout=timedelta(seconds=20), handler="app.handle"):
        (tmp_path / "app.py").write_text(source)
        environment = ExecutionEnvironment(
            EnvironmentSettings(
                function_arn="arn:aws:lambda:eu-central-1:123456789012:function:worker",
                handler=handler,
                task_root=tmp_path,
                timeout=timeout,
                variables=_variables(tmp_path),
            ),
            write_line=lines,
        )
        made.append(environment)
        return environment

    yield environment
    for environment in made:
        environment.close()


def _variables(task_root):
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(task_root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LAMBDA_TASK_ROOT": str(task_root),
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.14",
        "AWS_LAMBDA_FUNCTION_NAME": "worker",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/worker",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local",
    }


def _invoke(environment, **event):
    invocation = environment.invoke(json.dumps(event).encode())
    return json.loads(invocation.payload), invocation.function_error


def test_a_warm_process_is_reused(make):
    """The second invocation runs in the process of the first, with its globals."""
    environment = make()

    first, _ = _invoke(environment)
    second, error = _invoke(environment)

    assert error is None
    assert second == {"pid": first["pid"], "started": 2}
    assert environment.cold_starts == 1


def test_the_context_and_the_path_are_those_of_lambda(make, tmp_path):
    """Name, ARN and remaining time are right, and this project is not on the path."""
    told, _ = _invoke(make(timeout=timedelta(seconds=60)), do="tell")

    assert told["name"] == "worker"
    assert told["arn"].endswith(":function:worker")
    assert 30_000 < told["left"] <= 60_000
    assert told["root"] == str(tmp_path)
    assert str(tmp_path) in told["path"]
    assert str(ROOT) not in told["path"]
    assert str(ROOT / "local") not in told["path"]


def test_an_exception_is_an_error_and_keeps_the_process(make):
    """The error names its type and message; the process goes on."""
    environment = make()

    answer, error = _invoke(environment, do="fail")

    assert error == "Unhandled"
    assert (answer["errorType"], answer["errorMessage"]) == ("ValueError", "no such customer")
    assert _invoke(environment)[0]["started"] == 2


def test_a_handler_beyond_the_timeout_is_killed_and_the_next_one_starts_afresh(make, lines):
    """The error says so, the old process is gone and a new one answers."""
    environment = make(timeout=timedelta(seconds=2))

    answer, error = _invoke(environment, do="sleep")

    assert error == "Unhandled"
    assert answer["errorType"] == "Sandbox.Timedout"
    assert environment.pid is None
    lines.wait_for("Task timed out after 2.00 seconds")
    assert _invoke(environment)[0]["started"] == 1
    assert environment.cold_starts == 2


@pytest.mark.parametrize(("action", "status"), [("exit", 1), ("crash", 4)])
def test_a_process_that_ends_is_an_error_and_is_replaced(make, action, status):
    """sys.exit and a crash both end the environment, and the next invocation finds a new process."""
    environment = make()

    answer, error = _invoke(environment, do=action)

    assert error == "Unhandled"
    assert answer["errorType"] == "Runtime.ExitError"
    assert _invoke(environment)[0]["started"] == 1
    assert f"status {status}" in answer["errorMessage"] or action == "exit"


def test_a_process_killed_in_the_middle_of_an_invocation_is_an_error(make, lines):
    """A kill from outside ends the invocation at once."""
    environment = make()
    answers = []
    invoking = threading.Thread(target=lambda: answers.append(_invoke(environment, do="sleep")))
    invoking.start()
    lines.wait_for("asleep")

    environment.kill()
    invoking.join()

    assert answers[0][0]["errorType"] == "Runtime.ExitError"
    assert _invoke(environment)[0]["started"] == 1


def test_closing_ends_an_invocation_under_way(make, lines):
    """Nothing waits for a handler that sleeps."""
    environment = make()
    answers = []
    invoking = threading.Thread(target=lambda: answers.append(_invoke(environment, do="sleep")))
    invoking.start()
    lines.wait_for("asleep")

    environment.close()
    invoking.join()

    assert answers[0][1] == "Unhandled"
    assert _invoke(environment)[0]["errorType"] == "Runtime.Closed"
    assert not [line for line in lines.seen if "exited with status" in line or "Init failed" in line]


@pytest.mark.parametrize(
    ("source", "handler", "error_type"),
    [
        ("import no_such_module", "app.handle", "Runtime.ImportModuleError"),
        ("pass", "app.handle", "Runtime.HandlerNotFound"),
        ("this is no python", "app.handle", "Runtime.UserCodeSyntaxError"),
        ("print(no_such_name)", "app.handle", "NameError"),
        ("raise ValueError('größe')", "app.handle", "ValueError"),
        ("raise ValueError('größe €')", "app.handle", "Runtime.ExitError"),
        ("import os; os._exit(4)", "app.handle", "Runtime.ExitError"),
    ],
)
def test_code_that_does_not_load_is_an_error_of_each_invocation(make, lines, source, handler, error_type):
    """The error is the one of the init phase and in the log, and every invocation tries again."""
    environment = make(source, handler=handler)

    answers = [_invoke(environment) for _ in range(2)]

    assert [(answer["errorType"], error) for answer, error in answers] == [(error_type, "Unhandled")] * 2
    place = " (app.py, line 1)" if error_type in ("NameError", "ValueError") else ""
    expected = f"Init failed: {error_type}: {answers[0][0]['errorMessage']}{place}"
    assert [line for line in lines.seen if line.startswith("Init failed")] == [expected] * 2


def test_large_payloads_pass_both_ways(make):
    """Five megabytes come back as they went."""
    text = "ä" + "x" * 5_000_000

    answer, error = _invoke(make(), do="echo", text=text)

    assert error is None
    assert answer == text


def test_an_answer_beyond_the_limit_is_an_error(make):
    """Lambda refuses a response over 6 MB."""
    answer, error = _invoke(make(), do="large")

    assert error == "Unhandled"
    assert answer["errorType"] == "Function.ResponseSizeTooLarge"


def test_an_invocation_begins_and_ends_in_the_log_as_in_lambda(make, lines):
    """From these lines `lanes status` knows the running invocations; one that fails ends as well."""
    environment = make()

    for do in ("count", "crash", "fail"):
        _invoke(environment, do=do)

    started = [re.match(r"START RequestId: (\S+) Version: \S+$", line) for line in lines.seen]
    ended = [re.match(r"REPORT RequestId: (\S+)\tDuration: [\d.]+ ms$", line) for line in lines.seen]
    requests = [one[1] for one in started if one]
    assert len(requests) == 3
    assert requests == [one[1] for one in ended if one]


def test_lines_of_both_streams_are_captured(make, lines):
    """What the handler prints and complains reaches the log."""
    _invoke(make(), do="complain")

    lines.wait_for("handling complain")
    lines.wait_for("trouble")


def test_environments_die_with_the_platform_even_when_it_is_killed(tmp_path):
    """A platform that ends without any cleaning up leaves no process."""
    (tmp_path / "app.py").write_text(DAEMON)
    script = f"""
import os, sys, signal
from datetime import timedelta
from pathlib import Path
from local.environment import EnvironmentSettings, ExecutionEnvironment
environment = ExecutionEnvironment(
    EnvironmentSettings(function_arn="arn", handler="app.handle", task_root=Path({str(tmp_path)!r}),
                        timeout=timedelta(seconds=20), variables={_variables(tmp_path)!r}),
    write_line=print)
print(environment.invoke(b'{{"how": "session"}}').payload.decode())
print(environment.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )

    assert ended.returncode == -signal.SIGKILL
    for pid in ended.stdout.split()[-2:]:
        until(lambda pid=pid: _has_ended(int(pid)))


DAEMON = """
import os, subprocess, sys

def handle(event, context):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    if event["how"] == "orphan":
        script = "import subprocess; "
        script += f"print(subprocess.Popen({command!r}, stdout=subprocess.DEVNULL, start_new_session=True).pid)"
        return int(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout)
    variables = {} if event["how"] == "no variables" else None
    return subprocess.Popen(command, start_new_session=True, env=variables).pid
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@pytest.mark.parametrize("how", ["session", "no variables", "orphan"])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_processes_of_a_handler_end_with_its_environment(make, how, end):
    """Also in a session of their own, as Lambda ends an environment whole."""
    environment = make(DAEMON)
    pid, error = _invoke(environment, how=how)
    assert error is None
    assert not _has_ended(pid)

    getattr(environment, end)()

    until(lambda: _has_ended(pid))


def _has_ended(pid):
    """Whether the process is gone, or only its parent has yet to notice."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return _state(pid) == "Z"


def _state(pid):
    status = Path(f"/proc/{pid}/stat")
    return status.read_text().rpartition(")")[2].split()[0] if status.exists() else ""
