"""BulkEnqueue: the application for bulk jobs, its permissions and its network."""

import json
import re
import subprocess
import sys

import pytest
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk.assertions import Match, Template

import app as cdk_app
from cdk import BulkEnqueue, LaneQueues, Ledger
from cdk.bulk.packages import bundle
from lanes.config.spark_submit import spark_submit_parameters
from lanes.errors import ConfigurationError
from spark_jobs.options import RUN_ID
from tests.support.infrastructure import allowed, lanes_config, new_app, render, resources, the_only

APPLICATION = "AWS::EMRServerless::Application"


def made(*, then=None, **settings):
    """Make a stack with three lanes and the construct, and give both."""
    stack = Stack(new_app(), "Stack")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(3))
    made_of = settings.pop("with_vpc", None)
    if made_of:
        settings["vpc"] = made_of(stack)
    bulk = BulkEnqueue(stack, "Bulk", queues=queues, ledger=Ledger(stack, "Ledger"), **settings)
    if then is not None:
        then(stack, bulk)
    return stack


@pytest.fixture(scope="module")
def bulk_template():
    """Give the template with everything that can be asked for."""

    def then(stack, bulk):
        bulk.grant_start(iam.Role(stack, "Operator", assumed_by=iam.AccountRootPrincipal()))
        bulk.add_schedule(
            "Nightly",
            schedule=scheduler.ScheduleExpression.cron(hour="3", minute="0"),
            arguments=["--table", "s3://lake/customers", "--kind", "customer.remind"],
        )

    return Template.from_stack(made(then=then))


@pytest.mark.parametrize("policy", [RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, RemovalPolicy.DESTROY])
def test_files_are_deleted_with_the_stack_that_may_be_destroyed(policy):
    """AWS deletes no bucket with objects, and the stack would stay in DELETE_FAILED."""
    emptied = Template.from_stack(made(removal_policy=policy)).find_resources("Custom::S3AutoDeleteObjects")

    assert bool(emptied) == (policy is RemovalPolicy.DESTROY)


def test_the_application_runs_only_while_a_job_does(bulk_template):
    """Spark 4 on arm64; it starts with a job, stops after the last, and can't grow without end."""
    _, application = the_only(bulk_template, APPLICATION)

    assert application["ReleaseLabel"] == "emr-spark-8.1.0"
    assert (application["Type"], application["Architecture"]) == ("SPARK", "ARM64")
    assert application["AutoStartConfiguration"] == {"Enabled": True}
    assert application["AutoStopConfiguration"] == {"Enabled": True, "IdleTimeoutMinutes": 15}
    assert application["MaximumCapacity"] == {"Cpu": "16 vCPU", "Memory": "64 GB", "Disk": "320 GB"}
    assert "InitialCapacity" not in application


def test_jobs_may_send_to_the_last_lane_read_and_write_their_files_and_nothing_else(bulk_template):
    """No other lane, no delete, no queue list, no wildcard but below the prefixes of runs and logs."""
    files, _ = next(
        (name, one) for name, one in resources(bulk_template, "AWS::S3::Bucket").items() if "Files" in name
    )
    queue = next(
        name for name in resources(bulk_template, "AWS::SQS::Queue") if name.startswith("LanesL2Queue")
    )
    found = allowed(bulk_template, "BulkJobRole")

    assert {one for one in found if not one[1].startswith("arn:<AWS::Partition>:s3:::cdk-")} == {
        ("sqs:SendMessage", f"<{queue}.Arn>"),
        ("sqs:GetQueueAttributes", f"<{queue}.Arn>"),
        ("s3:ListBucket", f"<{files}.Arn>"),
        ("s3:GetObject", f"<{files}.Arn>/runs/*"),
        ("s3:PutObject", f"<{files}.Arn>/runs/*"),
        ("s3:PutObject", f"<{files}.Arn>/logs/*"),
    }
    assets = [one for one in found if one[1].startswith("arn:<AWS::Partition>:s3:::cdk-")]
    assert len(assets) == 2
    assert all(action == "s3:GetObject" and "*" not in arn for action, arn in assets)


def test_jobs_may_send_to_lanes_and_read_buckets_that_they_were_granted():
    """Both by construct, not by name."""
    stack = Stack(new_app(), "Stack")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(3))
    lake = s3.Bucket.from_bucket_name(stack, "Lake", "the-lake")
    BulkEnqueue(
        stack, "Bulk", queues=queues, ledger=Ledger(stack, "Ledger"), lanes=["L0", "L2"], inputs=[lake]
    )
    found = allowed(Template.from_stack(stack), "BulkJobRole")

    sends = [arn for action, arn in found if action == "sqs:SendMessage"]
    assert sorted(arn[: len("<LanesL0")] for arn in sends) == ["<LanesL0", "<LanesL2"]
    assert ("s3:GetObject", "arn:<AWS::Partition>:s3:::the-lake/*") in found
    assert ("s3:PutObject", "arn:<AWS::Partition>:s3:::the-lake/*") not in found


def test_only_jobs_of_the_application_run_as_the_role(bulk_template):
    """Not those of another application in this account."""
    bulk_template.has_resource_properties(
        "AWS::IAM::Role",
        {
            "Description": "Permissions of bulk jobs",
            "AssumeRolePolicyDocument": Match.object_like(
                {
                    "Statement": [
                        {
                            "Action": "sts:AssumeRole",
                            "Effect": "Allow",
                            "Principal": {"Service": "emr-serverless.amazonaws.com"},
                            "Condition": {
                                "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
                                "ArnLike": {
                                    "aws:SourceArn": {
                                        "Fn::GetAtt": [the_only(bulk_template, APPLICATION)[0], "Arn"]
                                    }
                                },
                            },
                        }
                    ]
                }
            ),
        },
    )


def test_the_network_reaches_sqs_and_s3_and_nothing_else(bulk_template):
    """No NAT gateway, no internet gateway, an endpoint of SQS that lets sending to the lane through."""
    endpoints = resources(bulk_template, "AWS::EC2::VPCEndpoint").values()
    by_type = {one["VpcEndpointType"]: one for one in endpoints}

    for kind in ("AWS::EC2::NatGateway", "AWS::EC2::InternetGateway", "AWS::EC2::EIP"):
        bulk_template.resource_count_is(kind, 0)
    assert by_type.keys() == {"Gateway", "Interface"}
    assert render(by_type["Gateway"]["ServiceName"]) == "com.amazonaws.<AWS::Region>.s3"
    assert render(by_type["Interface"]["ServiceName"]) == "com.amazonaws.<AWS::Region>.sqs"
    assert by_type["Interface"]["PrivateDnsEnabled"] is True
    (statement,) = by_type["Interface"]["PolicyDocument"]["Statement"]
    assert sorted(statement["Action"]) == ["sqs:GetQueueAttributes", "sqs:SendMessage"]
    assert render(statement["Resource"]).startswith("<LanesL2Queue")


def test_workers_are_where_the_endpoints_are_and_let_nobody_in(bulk_template):
    """Their group is the application's, and the endpoint of SQS lets it in, on one port."""
    _, application = the_only(bulk_template, APPLICATION)
    (group,) = (render(one) for one in application["NetworkConfiguration"]["SecurityGroupIds"])
    rules = list(resources(bulk_template, "AWS::EC2::SecurityGroupIngress").values())

    assert len(application["NetworkConfiguration"]["SubnetIds"]) == 2
    assert {(render(rule["SourceSecurityGroupId"]), rule["FromPort"]) for rule in rules} == {
        (group, 443),
        (group, 0),
    }
    assert all(
        "SecurityGroupIngress" not in one
        for one in resources(bulk_template, "AWS::EC2::SecurityGroup").values()
    )


def test_a_vpc_that_is_passed_in_is_used_as_it_is():
    """Nothing is added to it but the group of the workers."""

    def own_vpc(stack):
        return ec2.Vpc(stack, "Own", nat_gateways=1, max_azs=2, restrict_default_security_group=False)

    template = Template.from_stack(made(with_vpc=own_vpc))

    template.resource_count_is("AWS::EC2::VPC", 1)
    template.resource_count_is("AWS::EC2::VPCEndpoint", 0)
    _, application = the_only(template, APPLICATION)
    subnets = [render(one) for one in application["NetworkConfiguration"]["SubnetIds"]]
    assert all("PrivateSubnet" in subnet for subnet in subnets)


def test_who_may_start_may_pass_the_jobs_role_and_no_other(bulk_template):
    """Start, follow and cancel jobs of this application, and read their files."""
    application, _ = the_only(bulk_template, APPLICATION)
    found = allowed(bulk_template, "Operator")

    assert {action for action, _ in found} == {
        *(f"emr-serverless:{verb}JobRun" for verb in ("Start", "Get", "Cancel")),
        "emr-serverless:ListJobRuns",
        "emr-serverless:TagResource",
        "iam:PassRole",
        "ssm:GetParameter",
        "s3:ListBucket",
        "s3:GetObject",
    }
    assert ("emr-serverless:StartJobRun", f"<{application}.Arn>") in found
    assert ("emr-serverless:CancelJobRun", f"<{application}.Arn>/jobruns/*") in found
    assert next(arn for action, arn in found if action == "iam:PassRole").startswith("<BulkJobRole")
    assert not [one for one in found if one[1] == "*"]


def test_the_parameter_says_what_a_submit_needs(bulk_template):
    """Application, role, entry point, packages and files, under the stack's name."""
    ((_, parameter),) = resources(bulk_template, "AWS::SSM::Parameter").items()
    document = json.loads(render(parameter["Value"]))

    assert parameter["Name"] == "/lanes/Stack/bulk"
    assert document["version"] == 1
    assert document["application"].startswith("<BulkApplication")
    assert document["role"].startswith("<BulkJobRole")
    assert document["entry_point"].endswith(".py")
    assert document["packages"].endswith(".zip")
    assert document["files"].startswith("s3://<BulkFiles")


def test_a_scheduled_run_is_named_by_schedule_and_time(bulk_template):
    """Each attempt of one occasion has this name, so the manifest refuses the second session."""
    _, schedule = the_only(bulk_template, "AWS::Scheduler::Schedule")
    request = json.loads(render(schedule["Target"]["Input"]).replace("\n", ""), strict=False)
    submit = request["JobDriver"]["SparkSubmit"]
    arguments = submit["EntryPointArguments"]

    assert render(schedule["Target"]["Arn"]).endswith(":scheduler:::aws-sdk:emrserverless:startJobRun")
    assert request["ClientToken"] == "<aws.scheduler.execution-id>"
    assert request["ExecutionTimeoutMinutes"] == 720
    assert arguments[:4] == ["--table", "s3://lake/customers", "--kind", "customer.remind"]
    assert arguments[arguments.index("--run") + 1] == "Nightly-<aws.scheduler.scheduled-time>"
    assert RUN_ID.fullmatch("Nightly-2026-01-31T03:00:00Z")
    assert "spark.dynamicAllocation.maxExecutors=3" in submit["SparkSubmitParameters"]
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 3


def test_costs_of_bulk_jobs_can_be_told_by_tags(bulk_template):
    """The application, its endpoint and each run carry the stack of the lanes, runs also their name."""
    _, application = the_only(bulk_template, APPLICATION)
    _, schedule = the_only(bulk_template, "AWS::Scheduler::Schedule")
    endpoints = resources(bulk_template, "AWS::EC2::VPCEndpoint").values()
    request = json.loads(render(schedule["Target"]["Input"]).replace("\n", ""), strict=False)

    tag = {"Key": "lanes:stack", "Value": "Stack"}
    assert tag in application["Tags"]
    assert all(tag in endpoint["Tags"] for endpoint in endpoints)
    assert request["Tags"] == {"lanes:stack": "Stack", "lanes:run": "Nightly-<aws.scheduler.scheduled-time>"}


@pytest.mark.parametrize("name", ["every night", ".nightly", "n" * 80])
def test_a_schedule_that_cannot_name_runs_is_refused(name):
    """Its job would fail each time, at night."""
    stack = Stack(new_app(), "Stack")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(3))
    bulk = BulkEnqueue(stack, "Bulk", queues=queues, ledger=Ledger(stack, "Ledger"))

    with pytest.raises(ConfigurationError, match=f"the id of the schedule is '{name}'"):
        bulk.add_schedule(name, schedule=scheduler.ScheduleExpression.cron(hour="3"), arguments=[])


def test_numbers_that_emr_serverless_would_refuse_are_refused():
    """At synth, and not by a deployment or at night."""
    stack = Stack(new_app(), "Stack")
    parts = {
        "queues": LaneQueues(stack, "Lanes", config=lanes_config(3)),
        "ledger": Ledger(stack, "Ledger"),
    }
    bulk = BulkEnqueue(stack, "Bulk", **parts)
    daily = scheduler.ScheduleExpression.rate(Duration.days(1))

    with pytest.raises(ConfigurationError, match="maximum_vcpus is 0; at least 1 is needed"):
        BulkEnqueue(stack, "Other", **parts, maximum_vcpus=0)
    with pytest.raises(ConfigurationError) as caught:
        bulk.add_schedule("N", schedule=daily, arguments=[], maximum_executors=0, timeout=Duration.days(8))
    assert [problem.split(";")[0] for problem in caught.value.problems] == [
        "timeout is 11520 minutes",
        "maximum_executors is 0",
    ]
    with pytest.raises(TypeError, match=r"arguments is '--kind x'; it must be Sequence\[str\]"):
        bulk.add_schedule("N", schedule=daily, arguments="--kind x")


def stacks_of_the_app(**context):
    """Synthesise the app and give the templates of its stacks by name."""
    app = new_app(**context)
    cdk_app.add_stacks(app)
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


def types(template):
    """Give the types of a template's resources."""
    return {resource["Type"] for resource in template["Resources"].values()}


def test_bulk_jobs_have_a_stack_of_their_own():
    """An application that is started can't be updated: it must not hold up an urgent fix of the consumer."""
    plain, both = stacks_of_the_app(), stacks_of_the_app(bulk="on")
    resources_of_lanes = both["PriorityLanes"]["Resources"]

    assert plain.keys() == {"PriorityLanes"}
    assert both.keys() == {"PriorityLanes", "PriorityLanes-bulk"}
    assert resources_of_lanes == plain["PriorityLanes"]["Resources"]
    assert APPLICATION in types(both["PriorityLanes-bulk"])


@pytest.mark.parametrize(
    "context",
    [{}, *(pytest.param({"stage": one}, marks=pytest.mark.deep) for one in ("demo-pull", "outbox"))],
)
def test_a_deployment_without_bulk_keeps_the_outputs_that_deployed_bulk_jobs_read(context):
    """Without them the next update of the bulk jobs would fail."""
    plain, both = stacks_of_the_app(**context), stacks_of_the_app(**context, bulk="on")
    (lanes, outputs) = next((name, template["Outputs"]) for name, template in plain.items())

    assert outputs == both[lanes]["Outputs"]
    text = json.dumps(both[f"{lanes}-bulk"])
    read = set(re.findall(r'"Fn::GetStackOutput": \{.*?"OutputName": "(\w+)"', text))
    assert read
    assert read <= outputs.keys()


def test_the_parameter_has_the_name_of_the_stack_with_the_lanes():
    """`lanes bulk` looks for it there, and the bulk stack of a stage belongs to that stage."""
    template = stacks_of_the_app(stage="demo", bulk="on")["PriorityLanes-demo-bulk"]

    (parameter,) = (
        one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::SSM::Parameter"
    )
    assert parameter["Name"] == "/lanes/PriorityLanes-demo/bulk"


def test_nothing_of_the_lanes_is_exported():
    """An export in use would refuse the deployment that removes a lane."""
    outputs = stacks_of_the_app(bulk="on")["PriorityLanes"]["Outputs"]

    assert not [output for output in outputs.values() if "Export" in output]


def test_inputs_and_zones_are_asked_for_by_context():
    """`-c bulk_inputs=lake,other` grants reading, `-c bulk_zones=...` selects the zones of the subnets."""
    app = new_app(bulk="on", bulk_inputs="lake, other", bulk_zones="us-east-1b,us-east-1d")
    cdk_app.add_stacks(app)
    template = Template.from_stack(app.node.find_child("PriorityLanes-bulk"))
    found = allowed(template, "BulkJobRole")

    for name in ("lake", "other"):
        assert ("s3:GetObject", f"arn:<AWS::Partition>:s3:::{name}/*") in found
        assert ("s3:ListBucket", f"arn:<AWS::Partition>:s3:::{name}") in found
    zones = [subnet["AvailabilityZone"] for subnet in resources(template, "AWS::EC2::Subnet").values()]
    assert zones == ["us-east-1b", "us-east-1d"]


def test_a_catalog_gets_the_rights_the_endpoint_and_the_setting():
    """Jobs read the databases that were named, through an endpoint, since the VPC has no other way to Glue."""
    app = new_app(bulk="on", bulk_databases="sales")
    cdk_app.add_stacks(app)
    template = Template.from_stack(app.node.find_child("PriorityLanes-bulk"))
    read = {
        arn.rpartition("<AWS::AccountId>:")[2]
        for action, arn in allowed(template, "BulkJobRole")
        if action == "glue:GetTable"
    }
    endpoints = {
        render(one["ServiceName"]).rpartition(".")[2]
        for one in resources(template, "AWS::EC2::VPCEndpoint").values()
    }
    ((_, parameter),) = resources(template, "AWS::SSM::Parameter").items()
    document = json.loads(render(parameter["Value"]))

    databases = {"database/default", "database/global_temp", "database/sales"}
    assert read == {"catalog", *databases, "table/sales/*", "userDefinedFunction/sales/*"}
    assert not [action for action, _ in allowed(template, "BulkJobRole") if "Create" in action]
    assert endpoints == {"s3", "sqs", "glue", "dynamodb"}
    assert document["catalog"] is True
    parameters = spark_submit_parameters(packages="p", executors=1, catalog=True)
    assert "AWSGlueDataCatalogHiveClientFactory" in parameters
    assert "metastore" not in spark_submit_parameters(packages="p", executors=1, catalog=False)


def test_jobs_that_follow_their_runs_write_their_items_alone_and_reach_the_table():
    """The right is that of a producer; in a closed VPC the endpoint passes these calls on this table."""
    template = Template.from_stack(made(follow=True))
    (table,) = resources(template, "AWS::DynamoDB::Table")
    calls = {(f"dynamodb:{action}", f"<{table}.Arn>") for action in ("GetItem", "UpdateItem")}

    assert {one for one in allowed(template, "BulkJobRole") if one[0].startswith("dynamodb:")} == calls
    (endpoint,) = [
        one
        for one in resources(template, "AWS::EC2::VPCEndpoint").values()
        if "dynamodb" in json.dumps(one["ServiceName"])
    ]
    (statement,) = endpoint["PolicyDocument"]["Statement"]
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert {(action, render(statement["Resource"])) for action in statement["Action"]} == calls


def test_the_id_of_a_zone_is_refused():
    """The documentation of EMR Serverless names zones by id; a subnet needs the name."""
    with pytest.raises(ConfigurationError, match=r"'use1-az3' is the id .* describe-availability-zones"):
        cdk_app.add_stacks(new_app(bulk="on", bulk_zones="use1-az3"))


def test_settings_of_bulk_jobs_without_bulk_jobs_are_refused():
    """They would have no effect."""
    with pytest.raises(ConfigurationError, match=r"bulk_inputs is 'lake', .* -c bulk=on"):
        cdk_app.add_stacks(new_app(bulk_inputs="lake"))


def test_a_stage_can_not_take_the_name_of_a_stack_of_bulk_jobs():
    """PriorityLanes-bulk holds the bulk jobs of PriorityLanes."""
    for stage in ("bulk", "demo-bulk"):
        with pytest.raises(ConfigurationError, match="end in 'bulk'"):
            cdk_app.add_stacks(new_app(stage=stage))


def test_an_unknown_word_for_bulk_is_refused():
    """A typing mistake must not go unnoticed."""
    with pytest.raises(ConfigurationError, match="bulk is 'yes'"):
        cdk_app.add_stacks(new_app(bulk="yes"))


def test_the_packages_run_a_job_with_nothing_else_on_the_path(tmp_path):
    """The archive has the library, the jobs and boto3 with the data of the services that jobs call."""
    target = tmp_path / "packages"
    target.mkdir()
    bundle(target)
    program = (
        "import boto3, json, sys, lanes, urllib3; boto3.client('sqs', 'eu-central-1'); print(lanes.__file__)"
    )

    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(target / "lanes" / "__init__.py")
    assert {"botocore", "boto3", "lanes", "spark_jobs", "urllib3", "six.py"} <= {
        one.name for one in target.iterdir()
    }
    assert not list(target.rglob("*.so"))
    assert sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) < 12 * 2**20
