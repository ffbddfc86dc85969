"""Bulk jobs on EMR Serverless are started once for each session of their run."""

import io
import json
import re
from datetime import UTC, datetime

import pytest

from lanes.aws.bulk.runs import BulkApplication, BulkRuns
from lanes.errors import ConfigurationError

APPLICATION = BulkApplication(
    application="app",
    role="role",
    entry_point="s3://assets/submit.py",
    packages="s3://assets/packages.zip",
    files="s3://files",
    catalog=False,
)
# AWS: API_StartJobRun, clientToken.
TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Aws:
    """EMR Serverless, which runs one job for each token, and S3."""

    def __init__(self):
        self.jobs = {}
        self.files = {}

    def operations(self, _service):
        """Return the client of any service."""
        return self

    def start_job_run(self, *, clientToken, **_request):  # noqa: N803 - AWS's own name
        """Start a job, or find the one of the token."""
        assert TOKEN.fullmatch(clientToken)
        job = self.jobs.setdefault(clientToken, {"id": f"job-{len(self.jobs)}", "state": "RUNNING"})
        return {"jobRunId": job["id"]}

    def get_job_run(self, *, jobRunId, **_request):  # noqa: N803 - AWS's own name
        """Return the state of a job."""
        return {"jobRun": next(job for job in self.jobs.values() if job["id"] == jobRunId)}

    def get_paginator(self, _operation):
        """Return the pages of a listing."""
        return self

    def paginate(self, *, Bucket, Prefix):  # noqa: N803 - AWS's own names
        """Return a page."""
        assert Bucket == "files"
        found = [key for key in self.files if key.startswith(Prefix)]
        return [{"Contents": [{"Key": key, "LastModified": datetime.now(UTC)} for key in found]}]

    def get_object(self, *, Key, **_request):  # noqa: N803 - AWS's own name
        """Return a file."""
        return {"Body": io.BytesIO(self.files[Key])}

    def begin(self, number):
        """Begin a session as the job does."""
        begun = {"session": f"s{number}", "begun": "2026-01-02T12:00:00Z"}
        self.files[f"runs/spring/begun/{number:04d}.json"] = json.dumps(begun).encode()

    def end(self, number):
        """End a session as the job does."""
        self.files[f"runs/spring/sessions/s{number}.json"] = b"{}"

    def submit(self, *arguments, run="spring", take_over=False):
        """Submit a job as the command does."""
        runs = BulkRuns(APPLICATION, self)
        session = runs.next_session("s3://files/runs", run, take_over=take_over)
        return runs.start(["enqueue", *arguments], executors=1, run=session, tags={})


def test_a_submit_that_is_tried_again_starts_one_job():
    """An orchestrator repeats a submit with a lost answer."""
    aws = Aws()

    assert {aws.submit("--table", "a") for _ in range(3)} == {"job-0"}


def test_a_rerun_of_a_run_is_another_job():
    """Its session has ended, so the same arguments mean the rows that are left."""
    aws = Aws()
    first = aws.submit()
    aws.begin(1)
    aws.end(1)

    assert aws.submit() != first


def test_a_second_session_is_refused_before_a_job_starts():
    """With the start of the first; it can be taken over."""
    aws = Aws()
    aws.submit()
    aws.begin(1)

    with pytest.raises(
        ConfigurationError, match=r"run 'spring' has a session that began at 2026-01-02T12:00:00Z"
    ):
        aws.submit("--table", "other")
    assert len(aws.jobs) == 1

    assert aws.submit(take_over=True) == "job-1"


def test_a_job_that_never_began_its_session_is_started_again():
    """Its table was missing, say: the same command must not find the job that failed."""
    aws = Aws()
    aws.submit()
    for job in aws.jobs.values():
        job["state"] = "FAILED"

    assert aws.submit() == "job-1"


def test_runs_of_schedules_have_tokens():
    """Their times have colons, which a token may not have."""
    aws = Aws()

    aws.submit(run="Nightly-2026-01-02T03:00:00Z")
    aws.submit(run="x" * 100)

    assert len(aws.jobs) == 2


def test_a_manifest_on_this_machine_is_refused():
    """A job on AWS could not keep it."""
    with pytest.raises(ConfigurationError, match=r"--manifest is 'build/runs'; a job on AWS needs s3://"):
        BulkRuns(APPLICATION, Aws()).next_session("build/runs", "spring", take_over=False)
