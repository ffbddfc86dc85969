"""What moto does otherwise than AWS: CloudFormation as a real deploy needs it, actions it lacks, and DynamoDB."""

import io
import json
import threading
import zipfile
from contextlib import suppress

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from local import corrections
from local.corrections import dynamodb
from local.deployed import make_client

STACK = "corrected"


def _queue(**properties):
    return {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True, **properties}}


ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


def _function(code="def handle(event, context): pass", **properties):
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": code},
            "Handler": "index.handle",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            **properties,
        },
    }


def _mapping(**properties):
    return {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
            "FunctionName": {"Ref": "Function"},
            **properties,
        },
    }


def _table(**properties):
    return {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            **properties,
        },
    }


class _Stack:
    """One stack of the server."""

    def __init__(self, endpoint_url):
        self._endpoint_url = endpoint_url
        self.cloudformation = self.client("cloudformation")

    def client(self, service):
        return make_client(service, self._endpoint_url)

    def create(self, resources, outputs=None):
        self.cloudformation.create_stack(StackName=STACK, TemplateBody=_template(resources, outputs))

    def update(self, resources, outputs=None):
        self.cloudformation.update_stack(StackName=STACK, TemplateBody=_template(resources, outputs))

    def outputs(self):
        (stack,) = self.cloudformation.describe_stacks(StackName=STACK)["Stacks"]
        return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}

    def physical_id(self, logical_id):
        answer = self.cloudformation.describe_stack_resource(StackName=STACK, LogicalResourceId=logical_id)
        return answer["StackResourceDetail"]["PhysicalResourceId"]

    def queue_attributes(self):
        sqs = self.client("sqs")
        url = sqs.get_queue_url(QueueName=self.physical_id("Queue").rpartition("/")[2])["QueueUrl"]
        return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def _template(resources, outputs=None, parameters=None):
    template = {"Resources": resources, "Parameters": parameters or {}}
    template["Outputs"] = {name: {"Value": value} for name, value in (outputs or {}).items()}
    return json.dumps(template)


@pytest.fixture
def stack(server):
    """A stack that is gone after the test."""
    stack = _Stack(server.endpoint_url)
    yield stack
    with suppress(ClientError):
        stack.cloudformation.delete_stack(StackName=STACK)


def test_the_tags_of_a_parameter_are_a_map(stack):
    """As the CDK writes them for a tagged app, also when they change."""
    for team in ("payments", "refunds"):
        act = stack.create if team == "payments" else stack.update
        act({"Parameter": {"Type": "AWS::SSM::Parameter", "Properties": {
            "Name": "/tagged", "Type": "String", "Value": "v", "Tags": {"team": team}}}})  # fmt: skip

        tags = stack.client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId="/tagged")
        assert tags["TagList"] == [{"Key": "team", "Value": team}]


def test_an_error_names_the_resource_and_its_properties(stack):
    """Moto's own words are about its code."""
    wrong = {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True, "Tags": "payments"}}

    with pytest.raises(ClientError, match=r"Queue \(AWS::SQS::Queue\) can't be deployed .*FifoQueue, Tags"):
        stack.create({"Queue": wrong})


def test_queues_with_long_ids_keep_apart(stack):
    """A generated name is shortened in front of its random end, for both types of queue."""
    name = "ThePriorityLanesOfTheOrdersOfTheWarehouseInTheNorth"
    fifo = {f"{name}Lane{number}Queue{'X' * 20}": _queue() for number in range(3)}
    standard = {f"{name}Standard{number}{'X' * 20}": {**_queue(), "Properties": {}} for number in range(3)}
    stack.create({**fifo, **standard})

    names = [stack.physical_id(logical_id).rpartition("/")[2] for logical_id in (*fifo, *standard)]

    assert len(set(names)) == 6
    assert {len(one) for one in names} == {80}
    assert [one.endswith(".fifo") for one in names] == [True] * 3 + [False] * 3


def test_a_name_that_another_queue_has_is_refused(stack):
    """Two resources with one QueueName are not silently one queue."""
    twins = {logical_id: _queue(QueueName="twin.fifo") for logical_id in ("First", "Second")}

    with pytest.raises(ClientError, match=r"twin\.fifo already exists"):
        stack.create(twins)


def test_a_queue_does_not_silently_keep_its_type(stack):
    """A deploy that would replace the queue on AWS fails here."""
    stack.create({"Queue": _queue()})

    with pytest.raises(ClientError, match="give the new queue another logical id"):
        stack.update({"Queue": {**_queue(), "Properties": {"VisibilityTimeout": 31}}})


def test_unknown_types_are_recorded_so_that_references_to_them_resolve(stack):
    """Ref, GetAtt and DependsOn on a type that moto lacks work, custom resources included."""
    stack.create(
        {
            "Application": {"Type": "AWS::EMRServerless::Application", "Properties": {"Type": "SPARK"}},
            "Hook": {"Type": "Custom::Hook", "Properties": {"ServiceToken": "arn"}},
            "Queue": {**_queue(), "DependsOn": ["Application", "Hook"]},
        },
        {
            "Id": {"Ref": "Application"},
            "Arn": {"Fn::GetAtt": ["Application", "Arn"]},
            "ApplicationId": {"Fn::GetAtt": ["Application", "ApplicationId"]},
        },
    )

    outputs = stack.outputs()

    assert outputs["Id"] == outputs["ApplicationId"] == stack.physical_id("Application")
    assert outputs["Arn"].startswith("arn:aws:emrserverless:eu-central-1:123456789012:")


def test_settings_follow_an_update_and_absent_ones_reset(stack):
    """
    Of a queue also those that moto forgets; of a function reserved concurrency, environment, times and inline code.

    A mapping that the template leaves out is deleted. `Code.Location` names bucket and key of the code as deployed.
    """
    limits = {"ScalingConfig": {"MaximumConcurrency": 2}, "Enabled": False, "BatchSize": 3}
    environment = {"Environment": {"Variables": {"A": "1"}}, "MemorySize": 512}
    parts = {
        "Role": ROLE,
        "Queue": _queue(VisibilityTimeout=77, DelaySeconds=5),
        "Function": _function("first = 1", ReservedConcurrentExecutions=5, **environment),
    }
    stack.create({**parts, "Mapping": _mapping(**limits)})
    changed = {
        "Role": ROLE,
        "Queue": _queue(MessageRetentionPeriod=600, ContentBasedDeduplication=True),
        "Function": _function("second = 2", ReservedConcurrentExecutions=9, Timeout=7),
    }

    stack.update({**changed, "Mapping": _mapping(BatchSize=4)})
    functions, name = stack.client("lambda"), stack.physical_id("Function")
    (mapping,) = functions.list_event_source_mappings()["EventSourceMappings"]
    stack.update(changed)

    attributes = stack.queue_attributes()
    assert attributes["MessageRetentionPeriod"] == "600"
    assert attributes["ContentBasedDeduplication"] == "true"
    assert (attributes["VisibilityTimeout"], attributes["DelaySeconds"]) == ("30", "0")
    function = functions.get_function(FunctionName=name)
    assert functions.get_function_concurrency(FunctionName=name)["ReservedConcurrentExecutions"] == 9
    assert (function["Configuration"]["Timeout"], function["Configuration"]["MemorySize"]) == (7, 128)
    assert "Environment" not in function["Configuration"]
    host, _, key = function["Code"]["Location"].removeprefix("https://").partition("/")
    stored = stack.client("s3").get_object(Bucket=host.split(".s3.")[0], Key=key)["Body"].read()
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        assert archive.read("index.py") == b"second = 2"
    assert (mapping["BatchSize"], mapping["State"]) == (4, "Enabled")
    assert "ScalingConfig" not in mapping
    assert functions.list_event_source_mappings()["EventSourceMappings"] == []


def _schedule(**properties):
    return {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "Name": "s-nightly",
            "GroupName": {"Ref": "Group"},
            "ScheduleExpression": "rate(1 hour)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {
                "Arn": "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            },
            **properties,
        },
    }


def test_a_schedule_follows_updates_and_leaves_with_the_template(stack):
    """Its group has a name of its own; the schedules of other groups stay."""
    rest = {"Role": ROLE, "Group": {"Type": "AWS::Scheduler::ScheduleGroup"}}
    stack.create({**rest, "Schedule": _schedule()}, {"Arn": {"Fn::GetAtt": ["Group", "Arn"]}})
    scheduler, group = stack.client("scheduler"), stack.physical_id("Group")
    scheduler.create_schedule(
        Name="m-later",
        GroupName=group,
        ScheduleExpression="at(2030-01-01T00:00:00)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
            "RoleArn": "arn:aws:iam::1:role/r",
            "Input": "{}",
        },
    )
    assert stack.outputs()["Arn"].endswith(f":schedule-group/{group}")
    assert scheduler.get_schedule(Name="s-nightly", GroupName=group)["State"] == "ENABLED"

    stack.update({**rest, "Schedule": _schedule(ScheduleExpression="rate(2 hours)", State="DISABLED")})
    changed = scheduler.get_schedule(Name="s-nightly", GroupName=group)
    stack.update(rest)

    assert (changed["ScheduleExpression"], changed["State"]) == ("rate(2 hours)", "DISABLED")
    assert [one["Name"] for one in scheduler.list_schedules(GroupName=group)["Schedules"]] == ["m-later"]
    stack.cloudformation.delete_stack(StackName=STACK)
    assert scheduler.list_schedules(NamePrefix="m-later")["Schedules"] == []


REFUSED_MAPPINGS = [
    ({"BatchSize": 11}, {}, "InvalidParameterValueException", "BatchSize 11 exceeds 10"),
    ({"MaximumBatchingWindowInSeconds": 1}, {}, "InvalidParameterValueException", "Batching window"),
    ({}, {"VisibilityTimeout": "2"}, "InvalidParameterValueException", "2 seconds is less than Function"),
]


@pytest.mark.parametrize(("mapping", "queue", "code", "reason"), REFUSED_MAPPINGS)
def test_mappings_that_lambda_refuses_are_refused(stack, mapping, queue, code, reason):
    """By the API with Lambda's code, for a new mapping and for a change, and in a deploy."""
    parts = {"Role": ROLE, "Function": _function(Timeout=3), "Queue": _queue()}
    stack.create(parts | {"Mapping": _mapping()})
    functions, sqs = stack.client("lambda"), stack.client("sqs")
    (deployed,) = functions.list_event_source_mappings()["EventSourceMappings"]
    url = sqs.create_queue(QueueName="refused.fifo", Attributes={"FifoQueue": "true", **queue})["QueueUrl"]
    try:
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        with pytest.raises(ClientError, match=reason) as refused:
            functions.create_event_source_mapping(
                EventSourceArn=arn, FunctionName=deployed["FunctionArn"], **mapping
            )
        assert refused.value.response["Error"]["Code"] == code
    finally:
        sqs.delete_queue(QueueUrl=url)
    if mapping:
        with pytest.raises(ClientError, match=reason):
            functions.update_event_source_mapping(UUID=deployed["UUID"], **mapping)
    visibility = {name: int(value) for name, value in queue.items()}
    with pytest.raises(ClientError, match=reason):
        stack.update(parts | {"Queue": _queue(**visibility), "Mapping": _mapping(**mapping, Enabled=False)})


def test_a_second_mapping_of_a_queue_and_a_function_is_refused(stack):
    """The error names the mapping that exists."""
    parts = {"Role": ROLE, "Function": _function(), "Queue": _queue(), "Mapping": _mapping()}
    stack.create(parts)
    functions = stack.client("lambda")
    (deployed,) = functions.list_event_source_mappings()["EventSourceMappings"]

    with pytest.raises(ClientError, match=deployed["UUID"]) as refused:
        functions.create_event_source_mapping(
            EventSourceArn=deployed["EventSourceArn"], FunctionName=deployed["FunctionArn"]
        )

    assert refused.value.response["Error"]["Code"] == "ResourceConflictException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409


def test_a_mapping_on_another_queue_is_another_mapping(stack):
    """A changed queue replaces the mapping, and the old one is gone."""
    rest = {"Role": ROLE, "Function": _function(), "Queue": _queue(), "Other": _queue()}
    functions = stack.client("lambda")
    stack.create({**rest, "Mapping": _mapping()})
    (before,) = functions.list_event_source_mappings()["EventSourceMappings"]

    stack.update({**rest, "Mapping": _mapping(EventSourceArn={"Fn::GetAtt": ["Other", "Arn"]})})

    (after,) = functions.list_event_source_mappings()["EventSourceMappings"]
    assert after["UUID"] != before["UUID"]
    assert "Other" in after["EventSourceArn"]


def test_a_removed_mapping_is_deleted_last_and_made_anew_when_it_returns(stack):
    """At its deletion the function is changed and the new mapping is there; a return makes another one."""
    rest = {"Role": ROLE, "Queue": _queue(), "Other": _queue()}
    to_other = _mapping(EventSourceArn={"Fn::GetAtt": ["Other", "Arn"]})
    stack.create({**rest, "Function": _function(), "Mapping": _mapping()})
    functions = stack.client("lambda")
    (first,) = functions.list_event_source_mappings()["EventSourceMappings"]

    stack.update({**rest, "Function": _function(Timeout=7), "Bell": to_other})
    (bell,) = functions.list_event_source_mappings()["EventSourceMappings"]
    stack.update({**rest, "Function": _function(), "Mapping": _mapping()})
    (second,) = functions.list_event_source_mappings()["EventSourceMappings"]

    assert "Other" in bell["EventSourceArn"]
    assert second["EventSourceArn"] == first["EventSourceArn"]
    assert second["UUID"] != first["UUID"]


def test_what_fails_in_an_update_leaves_what_would_have_been_deleted(stack):
    """The clean-up comes after everything else, so a refused change deletes nothing."""
    stack.create({"Queue": _queue(), "Old": _queue()})
    old = stack.physical_id("Old").rpartition("/")[2]
    broken = _queue(RedrivePolicy={"deadLetterTargetArn": "arn:none", "maxReceiveCount": 3})

    with pytest.raises(ClientError, match="dead-letter queue"):
        stack.update({"Queue": _queue(), "New": broken})

    assert stack.client("sqs").get_queue_url(QueueName=old)["QueueUrl"].endswith(old)


def test_a_retained_resource_outlives_its_place_in_the_template(stack):
    """A queue with the deletion policy Retain keeps its messages when its lane is removed."""
    stack.create({"Queue": _queue(), "Kept": {**_queue(), "DeletionPolicy": "Retain"}})
    kept = stack.physical_id("Kept").rpartition("/")[2]

    stack.update({"Queue": _queue()})

    assert stack.client("sqs").get_queue_url(QueueName=kept)["QueueUrl"].endswith(kept)


@pytest.mark.parametrize(
    ("service", "action", "parameters"),
    [
        ("sqs", "start_message_move_task", {"SourceArn": "arn:aws:sqs:eu-central-1:123456789012:dead.fifo"}),
        ("cloudformation", "list_imports", {"ExportName": "x"}),
        ("cloudformation", "get_template_summary", {"TemplateBody": "}"}),
        ("dynamodb", "list_exports", {}),
        ("lambda", "get_account_settings", {}),
    ],
)
def test_an_action_that_moto_lacks_or_fails_at_is_an_error_of_its_service(stack, service, action, parameters):
    """It was a page of HTML with status 404 or 500, which a client tries again and can't read."""
    with pytest.raises(ClientError, match="is not emulated on this machine") as refused:
        getattr(stack.client(service), action)(**parameters)

    assert refused.value.response["Error"]["Code"].endswith("UnsupportedOperation")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def _indexed(*names, sort="at", include="lane"):
    """Give a table with these global indexes, and a local one."""
    key = {"AttributeName": "pk", "KeyType": "HASH"}

    def index(name, included):
        return {
            "IndexName": name,
            "KeySchema": [key, {"AttributeName": "at", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": [included]},
        }

    return _table(
        KeySchema=[key, {"AttributeName": sort, "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in {"pk", "at", sort}],
        GlobalSecondaryIndexes=[index(name, include) for name in names],
        LocalSecondaryIndexes=[index("chains", "parked")],
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (_indexed("ready", "timers", "third"), "more than one GSI creation or deletion"),
        (_indexed(), None),
        (_indexed("timers"), "more than one GSI creation or deletion"),
        (_indexed("ready", include="state"), "Cannot update GSI's properties"),
        (_indexed("ready", sort="sk"), "tables are not replaced"),
        (_indexed("ready", "timers"), None),
    ],
    ids=["two new", "one less", "another name", "a projection", "a key", "one more"],
)
def test_what_aws_refuses_of_indexes_is_refused(stack, changed, why):
    """A deployment that works here and rolls back there is found a day too late."""
    stack.create({"Table": _indexed("ready")})

    if why is None:
        stack.update({"Table": changed})
    else:
        with pytest.raises(ClientError, match=why):
            stack.update({"Table": changed})


def test_an_update_of_a_table_keeps_its_items(stack):
    """Time to live and a new index arrive, and nothing is lost."""
    stack.create({"Table": _table()}, {"Name": {"Ref": "Table"}})
    name = stack.outputs()["Name"]
    dynamodb = stack.client("dynamodb")
    dynamodb.put_item(TableName=name, Item={"pk": {"S": "one"}, "lane": {"S": "MAIN"}})
    index = {
        "IndexName": "parked",
        "KeySchema": [{"AttributeName": "lane", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    attributes = [{"AttributeName": one, "AttributeType": "S"} for one in ("pk", "lane")]

    stack.update(
        {
            "Table": _table(
                GlobalSecondaryIndexes=[index],
                AttributeDefinitions=attributes,
                TimeToLiveSpecification={"AttributeName": "expires_at", "Enabled": True},
            )
        },
        {"Name": {"Ref": "Table"}},
    )

    found = dynamodb.query(
        TableName=name,
        IndexName="parked",
        KeyConditionExpression="lane = :lane",
        ExpressionAttributeValues={":lane": {"S": "MAIN"}},
    )
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert stack.outputs()["Name"] == name
    assert found["Count"] == 1
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}


def test_a_change_set_creates_and_updates_with_outputs(stack):
    """The default method of the CDK works too, twice in a row."""
    for timeout in (77, 88):
        resources = {"Queue": _queue(VisibilityTimeout=timeout)}
        body = _template(resources, {"Arn": {"Fn::GetAtt": ["Queue", "Arn"]}})
        kind = "CREATE" if timeout == 77 else "UPDATE"
        stack.cloudformation.delete_change_set(StackName=STACK, ChangeSetName="change")
        stack.cloudformation.create_change_set(
            StackName=STACK, ChangeSetName="change", TemplateBody=body, ChangeSetType=kind
        )
        stack.cloudformation.execute_change_set(StackName=STACK, ChangeSetName="change")

        assert stack.queue_attributes()["VisibilityTimeout"] == str(timeout)
        assert stack.outputs()["Arn"].endswith(".fifo")


def test_change_sets_of_two_stacks_may_have_the_same_name(stack):
    """The CDK gives every stack's change set one name: deleting one must not touch the other."""
    for name in (STACK, "other"):
        stack.cloudformation.create_change_set(
            StackName=name,
            ChangeSetName="change",
            TemplateBody=_template({"Queue": _queue()}),
            ChangeSetType="CREATE",
        )

    stack.cloudformation.delete_change_set(StackName="other", ChangeSetName="change")

    described = stack.cloudformation.describe_change_set(StackName=STACK, ChangeSetName="change")
    assert described["StackName"] == STACK
    with pytest.raises(stack.cloudformation.exceptions.ChangeSetNotFoundException):
        stack.cloudformation.describe_change_set(StackName="other", ChangeSetName="change")


def test_previous_values_of_defaulted_parameters_are_found(stack):
    """UsePreviousValue works for a parameter that was never passed, also for one that names another."""
    stack.client("ssm").put_parameter(Name="/version", Value="30", Type="String", Overwrite=True)
    by_name = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/version"}
    parameters = {"Timeout": {"Type": "Number", "Default": 77}, "Version": by_name}
    resources = {"Queue": _queue(VisibilityTimeout={"Ref": "Timeout"})}
    body = _template(resources, None, parameters)
    stack.cloudformation.create_stack(StackName=STACK, TemplateBody=body)
    previous = [{"ParameterKey": one, "UsePreviousValue": True} for one in parameters]

    stack.cloudformation.update_stack(
        StackName=STACK,
        TemplateBody=_template({**resources, "Other": _queue()}, None, parameters),
        Parameters=previous,
    )
    stack.cloudformation.create_change_set(
        StackName=STACK,
        ChangeSetName="change",
        TemplateBody=_template(resources, None, parameters),
        ChangeSetType="UPDATE",
        Parameters=previous,
    )
    stack.cloudformation.execute_change_set(StackName=STACK, ChangeSetName="change")

    assert stack.queue_attributes()["VisibilityTimeout"] == "77"


def test_exports_follow_an_update(stack):
    """Those of the last template are there, and no others."""
    for name in ("first", "second"):
        body = {
            "Resources": {"Queue": _queue()},
            "Outputs": {"Seconds": {"Value": "77", "Export": {"Name": name}}},
        }
        act = stack.cloudformation.create_stack if name == "first" else stack.cloudformation.update_stack
        act(StackName=STACK, TemplateBody=json.dumps(body))

    assert [one["Name"] for one in stack.cloudformation.list_exports()["Exports"]] == ["second"]


def test_a_stack_reads_the_outputs_of_another(stack):
    """By Fn::GetStackOutput; an output that is not there is refused."""
    stack.cloudformation.create_stack(
        StackName="producing", TemplateBody=_template({"Queue": _queue()}, {"Seconds": "77"})
    )
    read = {"StackName": "producing", "Region": {"Ref": "AWS::Region"}, "OutputName": "Seconds"}

    stack.create({"Queue": _queue(VisibilityTimeout={"Fn::GetStackOutput": read})})
    attributes = stack.queue_attributes()
    missing = {"Fn::GetStackOutput": read | {"OutputName": "Minutes"}}
    with pytest.raises(ClientError, match="producing has no output Minutes"):
        stack.cloudformation.create_stack(
            StackName="reading", TemplateBody=_template({"Queue": _queue(VisibilityTimeout=missing)})
        )
    stack.cloudformation.delete_stack(StackName="producing")

    assert attributes["VisibilityTimeout"] == "77"


def test_a_template_that_cannot_be_deployed_is_a_client_error_and_leaves_nothing(stack):
    """The caller hears why at once, and the next try starts clean."""
    broken = {"Queue": _queue(RedrivePolicy={"deadLetterTargetArn": "arn:none", "maxReceiveCount": 3})}

    with pytest.raises(ClientError, match="dead-letter queue") as refused:
        stack.create(broken)
    stack.create({"Queue": _queue()})

    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert stack.queue_attributes()["FifoQueue"] == "true"


def test_a_failed_creation_keeps_only_resources_that_are_always_retained(stack):
    """RetainExceptOnCreate keeps a queue with its messages when the stack goes, not when it never was complete."""
    always = {"Always": {**_queue(), "DeletionPolicy": "Retain"}}
    stateful = {"Stateful": {**_queue(), "DeletionPolicy": "RetainExceptOnCreate"}}
    broken = {"Queue": _queue(RedrivePolicy={"deadLetterTargetArn": "arn:none", "maxReceiveCount": 3})}

    with pytest.raises(ClientError, match="dead-letter queue"):
        stack.create({**always, **stateful, **broken})
    after_failure = _retained(stack)
    stack.create(stateful)
    stack.cloudformation.delete_stack(StackName=STACK)
    after_deletion = _retained(stack)

    assert after_failure == {"Always"}
    assert after_deletion == {"Always", "Stateful"}


def _retained(stack):
    urls = stack.client("sqs").list_queues(QueueNamePrefix=f"{STACK}-").get("QueueUrls", [])
    return {url.rpartition("/")[2].split("-")[1] for url in urls} & {"Always", "Stateful"}


def test_deleting_a_stack_deletes_what_it_made(stack):
    """Queues, tables, functions and mappings go."""
    rest = {"Role": ROLE, "Function": _function(), "Queue": _queue(), "Table": _table()}
    stack.create({**rest, "Mapping": _mapping()})

    stack.cloudformation.delete_stack(StackName=STACK)

    prefix = f"{STACK}-"
    functions = stack.client("lambda")
    assert functions.list_event_source_mappings()["EventSourceMappings"] == []
    assert not functions.list_functions()["Functions"]
    assert not [one for one in stack.client("dynamodb").list_tables()["TableNames"] if one.startswith(prefix)]
    assert "-Queue-" not in str(stack.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls"))


@pytest.fixture
def table():
    """A table with a hundred items, in this process."""
    corrections.install()
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(100):
            client.put_item(TableName="t", Item={"pk": {"S": str(number)}, "n": {"N": "0"}})
        yield client


def _update(key, *, condition="n = :old", old="0"):
    return {
        "Update": {
            "TableName": "t",
            "Key": {"pk": {"S": key}},
            "UpdateExpression": "SET n = :new",
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {":new": {"N": "1"}, ":old": {"N": old}},
        }
    }


def _numbers(client):
    return {item["pk"]["S"]: item["n"]["N"] for item in client.scan(TableName="t")["Items"]}


def test_a_transaction_changes_all_of_its_items(table):
    """Without a failing condition every update takes effect."""
    table.transact_write_items(TransactItems=[_update("1"), _update("2")])

    assert {"1", "2"} == {key for key, number in _numbers(table).items() if number == "1"}


def test_one_failing_condition_cancels_the_transaction_with_its_reason(table):
    """Nothing changes, and the reasons come in the order of the actions."""
    with pytest.raises(ClientError) as raised:
        table.transact_write_items(TransactItems=[_update("1"), _update("2", old="7")])

    reasons = raised.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed"]
    assert {"0"} == set(_numbers(table).values())


def test_a_cancelled_transaction_undoes_nothing_of_others(table):
    """What was written between two transactions stays when the second is cancelled."""
    table.put_item(TableName="t", Item={"pk": {"S": "other"}, "n": {"N": "5"}})

    with pytest.raises(ClientError):
        table.transact_write_items(TransactItems=[_update("1", old="7")])

    assert _numbers(table)["other"] == "5"


def test_no_table_is_copied_for_a_transaction(table, monkeypatch):
    """The cost of a transaction does not depend on what else is in its table."""
    copied = []
    monkeypatch.setattr(dynamodb.copy, "deepcopy", lambda value: copied.append(type(value).__name__) or value)

    table.transact_write_items(TransactItems=[_update("1")])

    assert "Table" not in copied


def test_one_of_many_conditional_writers_wins(table):
    """Eight threads claim the same item; the condition lets one of them in."""
    won = []
    start = threading.Barrier(8)

    def claim(name):
        start.wait()
        try:
            table.update_item(
                TableName="t",
                Key={"pk": {"S": "1"}},
                UpdateExpression="SET held_by = :me",
                ConditionExpression="attribute_not_exists(held_by)",
                ExpressionAttributeValues={":me": {"S": name}},
            )
        except ClientError:
            return
        won.append(name)

    threads = [threading.Thread(target=claim, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
