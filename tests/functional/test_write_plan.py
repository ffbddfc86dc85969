"""The plan of a write is checked on the driver, the place of its manifest included."""

import json

import boto3
import pytest
from moto import mock_aws
from pyspark.sql import types as t

from lanes.errors import ConfigurationError
from spark_jobs.plan import WritePlan
from tests.support.sending import make_deployment

SCHEMA = t.StructType([t.StructField("data", t.StringType())])


def plan(manifest_path):
    """Plan a write with a manifest there."""
    options = {"deployment": make_deployment().to_json(), "kind": "a.kind", "region": "eu-central-1"}
    return WritePlan.make(options | {"runId": "spring", "manifestPath": str(manifest_path)}, SCHEMA)


def test_a_session_is_written_down_before_anything_is_sent(tmp_path):
    """When it began, under its name."""
    made = plan(tmp_path)

    begun = json.loads((tmp_path / "spring" / "begun" / f"{made.session}.json").read_text())
    assert begun["begun"].endswith("Z")
    assert not plan(tmp_path).earlier


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
        with pytest.raises(ConfigurationError, match=r"option manifestPath is 's3://none/x'.*NoSuchBucket"):
            plan("s3://none/x")
