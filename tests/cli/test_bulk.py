"""`lanes bulk submit`: jobs on EMR Serverless, and run here."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest

from lanes.aws.bulk.runs import BulkRun, BulkRuns
from lanes.cli import bulk
from lanes.config.spark_submit import SparkExtras
from spark_jobs.arguments import enqueue_parser as parser
from tests.support.command import Typed
from tests.support.lanes_server import DeployedLanes
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = [{"customer": f"c-{number}"} for number in range(12)]


@pytest.fixture(scope="module")
def lanes(aws):
    """Lanes with the parameter of their stack."""
    return DeployedLanes(aws.endpoint_url)


@pytest.fixture(scope="module")
def application(aws, lanes):
    """Leave an application as BulkEnqueue does, and give its document."""
    emr = boto3.client("emr-serverless", endpoint_url=aws.endpoint_url)
    # The emulation knows the labels of older releases only.
    created = emr.create_application(name="bulk", releaseLabel="emr-6.15.0", type="SPARK", clientToken="t")
    boto3.client("s3", endpoint_url=aws.endpoint_url).create_bucket(
        Bucket="files", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    document = {
        "version": 1,
        "application": created["applicationId"],
        "role": "arn:aws:iam::123456789012:role/jobs",
        "entry_point": "s3://assets/entry.py",
        "packages": "s3://assets/packages.zip",
        "files": "s3://files",
        "catalog": False,
    }
    ssm = boto3.client("ssm", endpoint_url=aws.endpoint_url)
    ssm.put_parameter(Name=f"/lanes/{lanes.stack}/bulk", Type="String", Value=json.dumps(document))
    return document


@pytest.fixture
def command(aws, lanes, tmp_path):
    """Run the command against this AWS as if it were the real one."""

    def run(*arguments, status=0, before=()):
        done = subprocess.run(
            [sys.executable, "-m", "lanes", "--stack", lanes.stack, *before, *arguments],
            env=os.environ
            | {"AWS_ENDPOINT_URL_SSM": aws.endpoint_url, **endpoints(aws), "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done

    return run


@pytest.fixture
def typed(aws, lanes):
    """Run the command within this process, for a test that needs no folder or process of its own."""
    here = Typed()
    here.variables = {**os.environ, "AWS_ENDPOINT_URL_SSM": aws.endpoint_url, **endpoints(aws)}

    def run(*arguments, status=0, before=()):
        done = here("--stack", lanes.stack, *before, *arguments)
        assert done.returncode == status, done.stderr
        return done

    return run


def endpoints(aws):
    """Give the addresses by service, since a general one means this machine."""
    return {f"AWS_ENDPOINT_URL_{name}": aws.endpoint_url for name in ("EMR_SERVERLESS", "S3", "SQS")}


@pytest.fixture
def emr(aws, monkeypatch):
    """Give EMR Serverless, where a job ends as a test says at the first pause of the command."""
    client = boto3.client("emr-serverless", endpoint_url=aws.endpoint_url)
    client.ends = "SUCCESS"
    states, get = ["RUNNING"], BulkRuns.get

    def sleep(_):
        if isinstance(client.ends, BaseException):
            raise client.ends
        states[0] = client.ends

    monkeypatch.setattr(BulkRuns, "get", lambda runs, run: replace(get(runs, run), state=states[0]))
    monkeypatch.setattr(bulk.time, "sleep", sleep)
    return client


def test_a_job_is_started_and_waited_for(aws, lanes, application, typed, emr):
    """With the deployment's document, a name and a manifest, so that it needs no other service."""
    s3 = boto3.client("s3", endpoint_url=aws.endpoint_url)
    s3.put_object(Bucket="files", Key="runs/spring/sent/one/p00000-a1-0001-700.json", Body=b"{}")
    s3.put_object(Bucket="files", Key="runs/spring/sent/two/p00000-a1-0001-50.json", Body=b"{}")
    s3.put_object(Bucket="files", Key="runs/spring/quarantine/two/p00000-a1-0002-3.jsonl", Body=b"{}")

    done = typed(
        *["bulk", "submit", "enqueue", "--run", "spring", "--executors", "5", "--timeout", "90m"],
        *["--table", "s3://lake/customers", "--kind", "customer.remind"],
        before=["--output", "json"],
    )

    state = json.loads(done.stdout)
    run_id = state["id"]
    assert "750 messages sent" in done.stderr
    job = emr.get_job_run(applicationId=application["application"], jobRunId=run_id)["jobRun"]
    submit = job["jobDriver"]["sparkSubmit"]
    arguments = submit["entryPointArguments"]
    assert arguments[:5] == ["enqueue", "--table", "s3://lake/customers", "--kind", "customer.remind"]
    assert json.loads(arguments[arguments.index("--deployment") + 1]) == json.loads(
        lanes.deployment.to_json()
    )
    assert arguments[-4:] == ["--run", "spring", "--manifest", "s3://files/runs"]
    assert submit["entryPoint"] == "s3://assets/entry.py"
    assert "--conf spark.archives=s3://assets/packages.zip#packages" in submit["sparkSubmitParameters"]
    assert "spark.dynamicAllocation.maxExecutors=5" in submit["sparkSubmitParameters"]
    assert job["executionRole"] == application["role"]
    assert job["executionTimeoutMinutes"] == 90
    assert job["tags"] == {"lanes:stack": lanes.stack, "lanes:run": "spring"}
    assert (state["run"], state["sent"], state["quarantined"]) == ("spring", 750, 3)


def test_a_run_that_was_cut_short_is_no_success(lanes, application, typed, emr):
    """A run that exceeds its timeout is CANCELLED: a script must not take it for a complete one."""
    emr.ends = "CANCELLED"

    done = typed("bulk", "submit", "enqueue", "--table", "s3://lake/cut", "--kind", "a.kind", status=3)

    assert "CANCELLED" in done.stdout
    assert "exceeds its --timeout" in done.stderr
    assert "the same --run" in done.stderr


def test_ctrl_c_leaves_a_run_running_and_names_the_way_to_it(lanes, application, typed, emr):
    """The AWS CLI has the verbs to follow and to cancel it."""
    emr.ends = KeyboardInterrupt()

    done = typed("bulk", "submit", "enqueue", "--table", "s3://lake/left", "--kind", "a.kind", status=130)

    job_run = rf"--application-id {application['application']} --job-run-id \S+"
    assert re.search(f"follow it: aws emr-serverless get-job-run {job_run}", done.stderr)
    assert re.search(f"cancel it: aws emr-serverless cancel-job-run {job_run}", done.stderr)


def test_a_timeout_under_a_minute_is_refused(lanes, application, typed):
    """Zero would mean none."""
    done = typed("bulk", "submit", "enqueue", "--timeout", "0", status=2)

    assert "Invalid value for --timeout: 0 is too short; give one minute or more" in done.stderr


@pytest.mark.parametrize(
    ("state", "failed"), [("SUCCESS", False), ("RUNNING", False), ("FAILED", True), ("CANCELLED", True)]
)
def test_success_alone_is_success(state, failed):
    """A run that still goes on has not failed yet."""
    assert BulkRun(id="1", state=state, details="", arguments=[]).has_failed == failed


def test_without_an_application_the_way_to_one_is_told(typed, aws):
    """The stack may be there without bulk jobs."""
    job = ["bulk", "submit", "enqueue", "--table", "s3://lake/customers", "--kind", "a.kind"]
    done = typed("--stack", "Other", *job, status=1)

    assert "there is no parameter /lanes/Other/bulk" in done.stderr
    assert "lanes cdk deploy --all -c bulk=on" in done.stderr


@pytest.mark.deep
def test_on_this_machine_the_same_program_runs_with_the_same_arguments(aws, lanes, command, tmp_path):
    """A rerun under the same name has nothing left to send."""
    table = tmp_path / "customers.json"
    table.write_text("\n".join(json.dumps(row) for row in CUSTOMERS))
    job = ["--table", str(table), "--format", "json", "--kind", "customer.remind", "--id", "customer"]

    outputs = [
        command("--endpoint", aws.endpoint_url, "bulk", "submit", "enqueue", "--run", "spring", *job).stdout
        for _ in range(2)
    ]

    summaries = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert [(one["sent"], one["skipped"]) for one in summaries] == [(12, 0), (0, 12)]
    assert lanes.waiting() == 12
    assert list((tmp_path / "build" / "bulk" / "spring" / "sessions").glob("*.json"))


@pytest.mark.deep
def test_a_signal_ends_the_session_and_all_its_processes(aws, lanes, command, tmp_path):
    """An orchestrator's timeout leaves nothing that goes on sending; the next session sends the rest at once."""
    table = tmp_path / "numbers.json"
    table.write_text("\n".join(json.dumps({"n": number}) for number in range(4000)))
    job = ["bulk", "submit", "enqueue", "--run", "cut", "--table", str(table), "--format", "json"]
    job += ["--kind", "number", "--id", "n"]
    before = lanes.waiting()
    with subprocess.Popen(
        [
            *[sys.executable, "-m", "lanes", "--stack", lanes.stack, "--endpoint", aws.endpoint_url],
            *[*job, "--max-send-rate", "20"],
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            until(lambda: lanes.waiting() > before)
            refused = command("--endpoint", aws.endpoint_url, *job, status=1).stderr
            started.send_signal(signal.SIGTERM)
            _, said = started.communicate(timeout=60)
        finally:
            started.kill()

    assert "run 'cut' has a session that began at 20" in refused, refused
    assert started.returncode == 128 + signal.SIGTERM, said
    assert not [one for one in processes() if str(tmp_path).encode() in one]
    summary = json.loads(command("--endpoint", aws.endpoint_url, *job).stdout.splitlines()[-1])
    assert 0 < summary["skipped"] < 4000
    assert lanes.waiting() == before + 4000


def processes():
    """Give the commands of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (folder / "cmdline").read_bytes()


def test_signals_reach_a_job_on_this_machine(tmp_path, monkeypatch):
    """Its exit code is that of the command, which waits for its end."""
    program = tmp_path / "submit.py"
    program.write_text(
        "import os, pathlib, signal, sys, time\n"
        "def stop(*_):\n"
        "    pathlib.Path(sys.argv[1], 'ended').touch()\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(bulk, "_spec", lambda: SimpleNamespace(origin=str(tmp_path / "__init__.py")))

    assert bulk.run_here(str(tmp_path), []) == 7
    assert (tmp_path / "ended").exists()


def test_jars_and_settings_reach_spark_on_this_machine(tmp_path, monkeypatch):
    """By the variable that pyspark reads; spark-submit takes them before its program."""
    (tmp_path / "submit.py").write_text(
        "import os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1], 'given').write_text(os.environ['PYSPARK_SUBMIT_ARGS'])\n"
    )
    monkeypatch.setattr(bulk, "_spec", lambda: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    spark = SparkExtras(jars="a.jar,b.jar", conf=["spark.sql.extensions=a b"])

    assert bulk.run_here(str(tmp_path), [], spark) == 0
    given = shlex.split((tmp_path / "given").read_text())
    assert given == ["--jars", "a.jar,b.jar", "--conf", "spark.sql.extensions=a b", "pyspark-shell"]


@pytest.mark.parametrize("given", [["--manifest=s3://mine/runs"], ["--manif", "s3://mine/runs"]])
def test_arguments_are_read_as_the_job_reads_them(aws, application, typed, emr, given):
    """Also abbreviated ones; a rerun would send everything again if the manifest were another one."""
    s3 = boto3.client("s3", endpoint_url=aws.endpoint_url)
    place = {"LocationConstraint": "eu-central-1"}
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="mine", CreateBucketConfiguration=place)
    job = ["--table", "s3://lake/x", "--kind", "a.kind", *given, "--ru", "summer", "--output", "json"]
    spark = ["--jars", "s3://lake/delta.jar", "--conf", "spark.sql.extensions=a b"]

    found = json.loads(typed("bulk", "submit", "enqueue", *job, *spark).stdout)

    run = emr.get_job_run(applicationId=application["application"], jobRunId=found["id"])["jobRun"]
    submit = run["jobDriver"]["sparkSubmit"]
    parsed = parser().parse_args(submit["entryPointArguments"][1:])
    assert (parsed.run, parsed.manifest, run["tags"]["lanes:run"]) == ("summer", "s3://mine/runs", "summer")
    assert found["run"] == "summer"
    assert submit["sparkSubmitParameters"].endswith(
        "--jars s3://lake/delta.jar --conf 'spark.sql.extensions=a b'"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["enqeue"],
            "there is no job 'enqeue'; did you mean 'enqueue'?; jobs are enqueue, loyalty_backfill",
        ),
        (["enqueue", "--kind", "a"], "one of the arguments --table --sql is required"),
        (["enqueue", "--table", "a", "--kind", "a", "--tabel", "b"], "unrecognized arguments: --tabel b"),
        (["enqueue", "--table", "a", "--kind", "a", "--stack", "b"], "lanes --stack ... bulk submit enqueue"),
        (["enqueue", "--table", "a", "--kind", "a", "--pack", "b"], "unrecognized arguments: --pack b"),
    ],
)
def test_wrong_arguments_are_refused_before_a_job_starts(lanes, application, typed, arguments, problem):
    """Not by the job, a minute later."""
    assert problem in typed("bulk", "submit", *arguments, status=2).stderr


def test_the_last_of_repeated_arguments_counts():
    """As for the job itself."""
    run = BulkRun(
        id="1", state="RUNNING", details="", arguments=["enqueue", "--run", "a", "--run", "b", "--manifest"]
    )

    assert (run.argument("--run"), run.argument("--manifest")) == ("b", None)
    assert not run.is_over
