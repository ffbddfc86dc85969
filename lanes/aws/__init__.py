"""Calls to AWS: the only package that uses boto3, whose errors it raises as `AwsError`."""
