"""The manifest of a Spark job in a bucket."""

import boto3
import pytest
from moto import mock_aws

from lanes.errors import AwsError
from spark_jobs.manifest.storage import open_storage


@pytest.fixture
def s3():
    """A client of S3, with a bucket."""
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(
            Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        yield client


@pytest.mark.parametrize(("path", "prefix"), [("s3://bucket/runs", "runs/"), ("s3a://bucket", "")])
def test_files_are_objects_under_the_prefix(s3, path, prefix):
    """They are found by the names they were written under, in order; others in the bucket are not."""
    s3.put_object(Bucket="bucket", Key="elsewhere/spring/sent/x", Body=b"")
    storage = open_storage(path, endpoint_url=None, region=None)
    storage.write("spring/sent/b", b"2")
    storage.write("spring/sent/a", b"1")
    storage.write("autumn/sent/a", b"3")

    assert list(storage.names("spring/se")) == ["spring/sent/a", "spring/sent/b"]
    assert storage.read("spring/sent/b") == b"2"
    assert s3.get_object(Bucket="bucket", Key=f"{prefix}spring/sent/a")["Body"].read() == b"1"


def test_a_missing_object_is_an_error_of_aws(s3):
    """The caller knows no errors of botocore."""
    with pytest.raises(AwsError):
        open_storage("s3://bucket/runs", endpoint_url=None, region=None).read("nothing")
