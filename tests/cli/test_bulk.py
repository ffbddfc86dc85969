"""`lanes bulk submit`: jobs on EMR Serverless."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from lanes.aws.bulk import BulkRun, BulkRuns
from lanes.cli import bulk
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
    monkeypatch.setattr(bulk, "sleep", sleep)
    return client


def test_a_job_is_started_and_waited_for(aws, lanes, application, typed, emr):
    """With the deployment's document, a name and a manifest, so that it needs no other service."""
    s3 = boto3.client("s3", endpoint_url=aws.endpoint_url)
    s3.put_object(Bucket="files", Key="runs/spring/sent/one/p00000-a1-0001-700.json", Body=b"{}")
    s3.put_object(Bucket="files", Key="runs/spring/sent/two/p00000-a1-0001-50.json", Body=b"{}")
    s3.put_object(Bucket="files", Key="runs/spring/quarantine/two/p00000-a1-0002-3.jsonl", Body=b"{}")

    done = typed(
        *["bulk", "submit", "--run", "spring", "--executors", "5", "--timeout", "90m"],
        *["--table", "s3://lake/customers", "--kind", "customer.remind"],
        before=["--output", "json"],
    )

    state = json.loads(done.stdout)
    run_id = state["id"]
    assert "750 messages sent" in done.stderr
    job = emr.get_job_run(applicationId=application["application"], jobRunId=run_id)["jobRun"]
    submit = job["jobDriver"]["sparkSubmit"]
    arguments = submit["entryPointArguments"]
    assert arguments[:4] == ["--table", "s3://lake/customers", "--kind", "customer.remind"]
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

    done = typed("bulk", "submit", "--table", "s3://lake/cut", "--kind", "a.kind", status=3)

    assert "CANCELLED" in done.stdout
    assert "exceeds its --timeout" in done.stderr
    assert "the same --run" in done.stderr


def test_ctrl_c_leaves_a_run_running_and_names_the_way_to_it(lanes, application, typed, emr):
    """The AWS CLI has the verbs to follow and to cancel it."""
    emr.ends = KeyboardInterrupt()

    done = typed("bulk", "submit", "--table", "s3://lake/left", "--kind", "a.kind", status=130)

    job_run = rf"--application-id {application['application']} --job-run-id \S+"
    assert re.search(f"follow it: aws emr-serverless get-job-run {job_run}", done.stderr)
    assert re.search(f"cancel it: aws emr-serverless cancel-job-run {job_run}", done.stderr)


@pytest.mark.parametrize("timeout", ["0", "59s", "8d"])
def test_a_timeout_that_no_job_may_have_is_refused(lanes, application, typed, timeout):
    """EMR Serverless takes 1 to 10,080 minutes, and no longer 0 for none."""
    done = typed("bulk", "submit", "--timeout", timeout, status=2)

    assert f"Invalid value for --timeout: {timeout} is not from 1m to 7d" in done.stderr


@pytest.mark.parametrize(
    ("state", "failed"), [("SUCCESS", False), ("RUNNING", False), ("FAILED", True), ("CANCELLED", True)]
)
def test_success_alone_is_success(state, failed):
    """A run that still goes on has not failed yet."""
    assert BulkRun(id="1", state=state, details="", arguments=[]).has_failed == failed


def test_without_an_application_the_way_to_one_is_told(typed, aws):
    """The stack may be there without bulk jobs."""
    job = ["bulk", "submit", "--table", "s3://lake/customers", "--kind", "a.kind"]
    done = typed("--stack", "Other", *job, status=1)

    assert "there is no parameter /lanes/Other/bulk" in done.stderr
    assert "lanes cdk deploy --all -c bulk=on" in done.stderr


def test_on_this_machine_the_job_is_its_own_program(typed):
    """There is no EMR Serverless to submit it to."""
    job = ["--table", "a", "--kind", "a.kind"]
    done = typed("bulk", "submit", *job, before=["--endpoint", "http://127.0.0.1:1"], status=2)

    assert "python -m spark_jobs.enqueue" in done.stderr


@pytest.mark.deep
def test_a_signal_ends_the_session_and_all_its_processes(aws, lanes, tmp_path):
    """An orchestrator's timeout leaves nothing that goes on sending; the next session sends the rest at once."""
    table = tmp_path / "numbers.json"
    table.write_text("\n".join(json.dumps({"n": number}) for number in range(4000)))
    job = [
        sys.executable,
        "-m",
        "spark_jobs.enqueue",
        "--run",
        "cut",
        "--table",
        str(table),
        "--format",
        "json",
    ]
    job += ["--kind", "number", "--id", "n", "--manifest", str(tmp_path / "runs")]
    job += ["--stack", lanes.stack, "--endpoint-url", aws.endpoint_url]
    how = {"env": os.environ | {"PYTHONPATH": str(ROOT)}, "cwd": tmp_path, "text": True}

    def again():
        return subprocess.run(job, capture_output=True, check=False, **how)

    before = lanes.waiting()
    limited = [*job, "--max-send-rate", "20"]
    with subprocess.Popen(limited, stderr=subprocess.PIPE, start_new_session=True, **how) as started:
        try:
            until(lambda: any((tmp_path / "runs" / "cut" / "sent").rglob("*.json")))
            refused = again().stderr
            started.send_signal(signal.SIGTERM)
            _, said = started.communicate(timeout=60)
        finally:
            started.kill()

    assert "run 'cut' has a session that began at 20" in refused, refused
    assert started.returncode == 128 + signal.SIGTERM, said
    assert not [one for one in processes() if str(tmp_path).encode() in one]
    summary = json.loads(again().stdout.splitlines()[-1])
    assert 0 < summary["skipped"] < 4000
    assert lanes.waiting() == before + 4000


def processes():
    """Give the commands of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (folder / "cmdline").read_bytes()


@pytest.mark.parametrize("given", [["--manifest=s3://mine/runs"], ["--manif", "s3://mine/runs"]])
def test_arguments_are_read_as_the_job_reads_them(aws, application, typed, emr, given):
    """Also abbreviated ones; a rerun would send everything again if the manifest were another one."""
    s3 = boto3.client("s3", endpoint_url=aws.endpoint_url)
    place = {"LocationConstraint": "eu-central-1"}
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="mine", CreateBucketConfiguration=place)
    job = ["--table", "s3://lake/x", "--kind", "a.kind", *given, "--ru", "summer", "--output", "json"]
    spark = ["--spark-submit", "--jars s3://lake/delta.jar --conf 'spark.sql.extensions=a b'"]

    found = json.loads(typed("bulk", "submit", *job, *spark).stdout)

    run = emr.get_job_run(applicationId=application["application"], jobRunId=found["id"])["jobRun"]
    submit = run["jobDriver"]["sparkSubmit"]
    parsed = parser().parse_args(submit["entryPointArguments"])
    assert (parsed.run, parsed.manifest, run["tags"]["lanes:run"]) == ("summer", "s3://mine/runs", "summer")
    assert found["run"] == "summer"
    assert submit["sparkSubmitParameters"].endswith(
        "--jars s3://lake/delta.jar --conf 'spark.sql.extensions=a b'"
    )


def test_a_manifest_on_this_machine_is_refused(lanes, application, typed):
    """A job on AWS could not keep it."""
    job = ["--table", "s3://lake/x", "--kind", "a.kind", "--run", "r", "--manifest", "build/runs"]

    assert (
        "--manifest is 'build/runs'; a job on AWS needs s3://"
        in typed("bulk", "submit", *job, status=1).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--kind", "a"], "one of the arguments --table --sql is required"),
        (["--table", "a", "--kind", "a", "--tabel", "b"], "unrecognized arguments: --tabel b"),
        (["--table", "a", "--kind", "a", "--stack", "b"], "lanes --stack ... bulk submit"),
        (["--table", "a", "--kind", "a", "--pack", "b"], "unrecognized arguments: --pack b"),
    ],
)
def test_wrong_arguments_are_refused_before_a_job_starts(lanes, application, typed, arguments, problem):
    """Not by the job, a minute later."""
    assert problem in typed("bulk", "submit", *arguments, status=2).stderr


def test_the_last_of_repeated_arguments_counts():
    """As for the job itself."""
    run = BulkRun(id="1", state="RUNNING", details="", arguments=["--run", "a", "--run", "b", "--manifest"])

    assert (run.argument("--run"), run.argument("--manifest")) == ("b", None)
    assert not run.is_over
