"""The only place that talks to boto3; its errors end here and go on as `AwsError`."""
