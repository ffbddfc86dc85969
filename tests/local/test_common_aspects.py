"""Our stack as apps have it: tagged, with a permissions boundary, removal policies, a topic and every feature on."""

import io
import json
import zipfile

import aws_cdk as cdk
import pytest
from aws_cdk import RemovalPolicies, Tags
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from cdk import PriorityLanesStack
from lanes.config import LanesConfig
from local.deployed import make_client
from tests.support.infrastructure import FUNCTION_FOLDER, new_app

CONFIG = {
    "lanes": [{"name": "HIGH", "threshold": 50, "max_wait": 60}, {"name": "MAIN"}],
    "outbox": {"enabled": True},
}


def template(engine, *, tag):
    """Synthesise the stack with the aspects that teams put on every app."""
    app = new_app()
    stack = PriorityLanesStack(
        app,
        "Tagged",
        config=LanesConfig.from_dict({**CONFIG, "consumer": {"engine": engine}}),
        function_folder=FUNCTION_FOLDER,
        alarm_topic="arn:aws:sns:eu-central-1:123456789012:alarms",
    )
    Tags.of(app).add("team", tag)
    Tags.of(app).add("cost-centre", "42")
    iam.PermissionsBoundary.of(app).apply(
        iam.ManagedPolicy.from_managed_policy_arn(
            stack, "Boundary", "arn:aws:iam::123456789012:policy/limits"
        )
    )
    RemovalPolicies.of(app).apply(cdk.RemovalPolicy.DESTROY)
    return Template.from_stack(stack).to_json()


def with_code(found, s3):
    """Put an archive where each function's code is expected."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("handler.py", "def lambda_handler(event, context): return {}")
    for resource in found["Resources"].values():
        code = resource["Properties"].get("Code", {}) if resource["Type"] == "AWS::Lambda::Function" else {}
        if "S3Key" in code:
            code["S3Bucket"] = "assets"
            s3.put_object(Bucket="assets", Key=code["S3Key"], Body=archive.getvalue())
    return found


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_stack_with_common_aspects_is_deployed_and_changed(server, engine):
    """AWS deploys it, so this machine does; the parameter's tags are a map there."""
    cloudformation, s3 = (make_client(name, server.endpoint_url) for name in ("cloudformation", "s3"))
    s3.create_bucket(Bucket="assets", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    name = f"tagged-{engine}"
    settings = {
        "StackName": name,
        "Parameters": [{"ParameterKey": "BootstrapVersion", "ParameterValue": "21"}],
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
    }
    try:
        first = with_code(template(engine, tag="payments"), s3)
        first["Parameters"] = {"BootstrapVersion": {"Type": "String"}}
        first.pop("Rules", None)
        cloudformation.create_stack(TemplateBody=json.dumps(first), **settings)
        second = with_code(template(engine, tag="refunds"), s3)
        second["Parameters"], second["Rules"] = first["Parameters"], {}
        cloudformation.update_stack(TemplateBody=json.dumps(second), **settings)

        resources = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        assert {one["LogicalResourceId"] for one in resources} >= first["Resources"].keys()
        (parameter,) = (one for one in resources if one["ResourceType"] == "AWS::SSM::Parameter")
        tags = make_client("ssm", server.endpoint_url).list_tags_for_resource(
            ResourceType="Parameter", ResourceId=parameter["PhysicalResourceId"]
        )["TagList"]
        assert {one["Key"]: one["Value"] for one in tags} == {"team": "refunds", "cost-centre": "42"}
    finally:
        cloudformation.delete_stack(StackName=name)
        for one in s3.list_objects_v2(Bucket="assets").get("Contents", []):
            s3.delete_object(Bucket="assets", Key=one["Key"])
        s3.delete_bucket(Bucket="assets")
