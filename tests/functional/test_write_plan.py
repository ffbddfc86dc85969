"""The plan of a write is checked on the driver, the place of its manifest included."""

import json
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws
from pyspark.sql import types as t

from lanes.errors import ConfigurationError
from spark_jobs.manifest.run import RunInUseError, RunManifest, TakenOverError
from spark_jobs.plan import WritePlan
from tests.support.sending import make_deployment

SCHEMA = t.StructType([t.StructField("data", t.StringType())])


def plan(manifest_path, *, stream=False, **more):
    """Plan a write with a manifest there."""
    options = {"deployment": make_deployment().to_json(), "kind": "a.kind", "region": "eu-central-1"}
    run = {"runId": "spring", "manifestPath": str(manifest_path)}
    return WritePlan.make(options | run | more, SCHEMA, stream=stream)


def test_a_session_is_written_down_before_anything_is_sent(tmp_path):
    """When it began, under its name."""
    made = plan(tmp_path)

    begun = json.loads((tmp_path / "spring" / "begun" / "0001.json").read_text())
    assert (begun["session"], begun["begun"][-1]) == (made.session, "Z")
    assert not made.earlier


def test_a_run_has_one_session_at_a_time(tmp_path):
    """The second is refused with the start of the first; it begins once that has ended, or takes over."""
    first = plan(tmp_path)
    begun = json.loads((tmp_path / "spring" / "begun" / "0001.json").read_text())["begun"]

    with pytest.raises(RunInUseError, match=f"run 'spring' has a session that began at {begun} and has not"):
        plan(tmp_path)
    taken = plan(tmp_path, takeOver="true")

    with pytest.raises(TakenOverError, match="has taken over run 'spring'"):
        first.manifest().task(partition=0, attempt=1, first=True)
    taken.abandon("stopped")
    assert plan(tmp_path).claim.number == 3


class Task:
    """The context of a task."""

    def __init__(self, partition):
        self._partition = partition

    def partitionId(self):  # noqa: N802
        """Give the number of the partition, and of the attempt."""
        return self._partition

    taskAttemptId = partitionId  # noqa: N815

    def attemptNumber(self):  # noqa: N802
        """Give that it is the first."""
        return 0

    def getLocalProperty(self, _key):  # noqa: N802
        """Give no setting."""


def test_the_tasks_of_a_worker_read_once_what_earlier_sessions_have_sent(tmp_path, monkeypatch):
    """Ten million ids take half a minute, and a large table has thousands of tasks; a later session reads anew."""
    read, reads = RunManifest.sent_before, []
    monkeypatch.setattr(RunManifest, "sent_before", lambda run: reads.append(run.session) or read(run))

    def session(name, *known):
        made = plan(tmp_path)
        for partition in range(3):
            record = made._record(Task(partition))
            assert [record.has(identity) for identity in ("one", "two")] == [
                one in known for one in ("one", "two")
            ]
        record.sent("MAIN", [SimpleNamespace(identity=name)])
        record.flush()
        made.abandon("stopped")
        return made.session

    sessions = [session("one"), session("two", "one"), session("three", "one", "two")]

    assert reads == sessions


def test_a_stream_that_is_started_again_takes_no_claim(tmp_path):
    """Its checkpoint has one query at a time, and a query that was killed restarts by itself."""
    assert plan(tmp_path, stream=True).claim is None
    assert plan(tmp_path, stream=True).claim is None


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    """Not by a task that has sent its rows and can't write down so."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match=r"option manifestPath is '.*file/runs'; it cannot be read"):
        plan(tmp_path / "file" / "runs")


def test_a_bucket_that_is_not_there_is_refused():
    """With what S3 says."""
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="manifests")

        assert plan("s3://manifests/of/jobs").session
        with pytest.raises(RunInUseError):
            plan("s3://manifests/of/jobs")
        with pytest.raises(ConfigurationError, match=r"option manifestPath is 's3://none/x'.*NoSuchBucket"):
            plan("s3://none/x")
