"""PriorityConsumer: the function and its mappings."""

import json

import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match, Template

from cdk import LaneQueues, Ledger, PriorityConsumer
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, pointed
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from tests.support.infrastructure import (
    FOREIGN_CODE,
    allowed,
    foreign_stack,
    foreign_template,
    lane_queue,
    lanes_config,
    live_function,
    render,
    resources,
)

FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
QUEUE = "AWS::SQS::Queue"


def only_function(template):
    """Give the logical id and the properties of the one function."""
    ((name, properties),) = resources(template, FUNCTION).items()
    return name, properties


def further_consumer(stack, queues, **props):
    """Add one more consumer with lanes of its own and these props."""
    return PriorityConsumer(
        stack,
        "Further",
        queues=LaneQueues(stack, "FurtherLanes", config=queues.config),
        ledger=Ledger(stack, "FurtherLedger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
        **props,
    )


def test_every_lane_is_mapped_to_the_function_and_reports_partial_failures(foreign):
    """One mapping per lane, from its queue to the one function, with the settings of the lane."""
    config, template = foreign
    function, _properties = only_function(template)

    template.resource_count_is(MAPPING, len(config.lanes))
    assert {
        live_function(template, one["FunctionName"]) for one in resources(template, MAPPING).values()
    } == {function}
    for lane in config.lanes:
        queue, _dead_letters = lane_queue(template, lane)
        template.has_resource_properties(
            MAPPING,
            {
                "EventSourceArn": {"Fn::GetAtt": [queue, "Arn"]},
                "BatchSize": lane.batch_size,
                "ScalingConfig": {"MaximumConcurrency": lane.maximum_concurrency},
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "MetricsConfig": {"Metrics": ["EventCount"]},
            },
        )


def test_an_earlier_version_of_the_function_stays(template):
    """So that going back is one change of the alias. The reserved concurrency is that of all versions."""
    ((_, version),) = template.find_resources("AWS::Lambda::Version").items()

    assert version["DeletionPolicy"] == "RetainExceptOnCreate"
    assert "ProvisionedConcurrencyConfig" not in version["Properties"]


def test_no_mapping_filters_messages(template):
    """AWS deletes messages that a filter refuses."""
    template.all_resources_properties(MAPPING, {"FilterCriteria": Match.absent()})


def test_the_function_is_set_up_from_the_configuration():
    """Timeout, memory and reserved concurrency are the consumer settings'."""
    config = lanes_config(2, reserved_concurrency=7, function_timeout="45s", memory_mb=1024)

    template = foreign_template(config)

    template.has_resource_properties(
        FUNCTION, {"Timeout": 45, "MemorySize": 1024, "ReservedConcurrentExecutions": 7}
    )


def test_the_function_runs_on_arm_and_a_current_python(template):
    """The cheaper processor, and the runtime that the asset's wheels are made for."""
    template.has_resource_properties(FUNCTION, {"Architectures": ["arm64"], "Runtime": "python3.14"})


def test_logs_end_after_a_month_in_a_group_of_the_stack(template):
    """The function writes to the group with a retention."""
    ((group, properties),) = resources(template, "AWS::Logs::LogGroup").items()

    assert properties["RetentionInDays"] == 30
    template.has_resource_properties(FUNCTION, {"LoggingConfig": {"LogGroup": {"Ref": group}}})


def test_the_function_knows_its_deployment(foreign):
    """LANES_DEPLOYMENT reads back as the configuration, with the queues' URLs and the table's name."""
    config, template = foreign
    _function, properties = only_function(template)
    (table,) = resources(template, "AWS::DynamoDB::Table")

    deployment = Deployment.from_json(render(properties["Environment"]["Variables"]["LANES_DEPLOYMENT"]))

    assert deployment.config == config
    assert deployment.table == f"<{table}>"
    for lane in config.lanes:
        queue, dead_letters = lane_queue(template, lane)
        assert deployment.queues[lane.name].url == f"<{queue}>"
        assert deployment.queues[lane.name].dead_letter_url == f"<{dead_letters}>"


def test_logs_and_metrics_carry_the_stacks_name(template):
    """Two deployments in one account keep their figures apart."""
    _function, properties = only_function(template)

    variables = properties["Environment"]["Variables"]

    assert {name: value for name, value in variables.items() if name != "LANES_DEPLOYMENT"} == {
        "POWERTOOLS_SERVICE_NAME": "PriorityLanes",
        "POWERTOOLS_METRICS_NAMESPACE": "PriorityLanes",
        "LOG_LEVEL": "INFO",
        "LANES_HANDLER": "handler.lambda_handler",
    }
    assert properties["Handler"] == "lanes.aws.entry_point.lambda_handler"


def test_lambda_traces_nothing_by_itself(template):
    """X-Ray would need a permission on every resource; a message carries its trace itself."""
    _function, properties = only_function(template)

    assert "TracingConfig" not in properties


def test_a_function_under_the_mappings_sum_is_explained():
    """An information explains a reserved concurrency under the sum; it is not a warning, since it is allowed."""
    stack = foreign_stack(lanes_config(3, reserved_concurrency=1))

    annotations = Annotations.from_stack(stack)

    annotations.has_info("/Foreign/Consumer", Match.string_like_regexp("reserved_concurrency is 1 .* 6"))
    annotations.has_no_warning("*", Match.any_value())


def test_a_function_that_serves_all_mappings_needs_no_explanation():
    """With enough slots only the account's quota is left to explain."""
    annotations = Annotations.from_stack(foreign_stack(lanes_config(1, reserved_concurrency=4)))

    # Not find_info: its results cannot always be converted from JavaScript ("Unknown interface").
    annotations.has_no_info("*", Match.string_like_regexp("reserved_concurrency is"))
    annotations.has_info("*", Match.string_like_regexp("quota can be as low as 10"))


def test_an_accounts_concurrency_quota_is_explained():
    """A new account's refusal of a reservation doesn't come as a surprise."""
    annotations = Annotations.from_stack(foreign_stack(lanes_config(1)))

    annotations.has_info("/Foreign/Consumer", Match.string_like_regexp("quota can be as low as 10"))


def test_further_variables_reach_the_function():
    """Your own variables are added to those of the construct."""
    stack = foreign_stack(
        lanes_config(1),
        then=lambda stack, queues, _consumer: further_consumer(
            stack, queues, environment={"RESOURCE_SECONDS": "2"}, service="orders", log_level="DEBUG"
        ),
    )

    Template.from_stack(stack).has_resource_properties(
        FUNCTION,
        {
            "Environment": {
                "Variables": {
                    "RESOURCE_SECONDS": "2",
                    "POWERTOOLS_SERVICE_NAME": "orders",
                    "LOG_LEVEL": "DEBUG",
                    "LANES_DEPLOYMENT": Match.any_value(),
                }
            }
        },
    )


def test_a_variable_of_the_construct_cant_be_replaced():
    """A user's LANES_DEPLOYMENT would send the consumer astray."""
    with pytest.raises(ConfigurationError, match="environment sets LANES_DEPLOYMENT"):
        foreign_stack(
            lanes_config(1),
            then=lambda stack, queues, _consumer: further_consumer(
                stack, queues, environment={"LANES_DEPLOYMENT": "{}"}
            ),
        )


def test_a_log_level_that_does_not_exist_is_refused():
    """It was INFO without a word."""
    with pytest.raises(ConfigurationError, match="log_level is 'TRACE'; it must be one of DEBUG, INFO"):
        foreign_stack(
            lanes_config(1),
            then=lambda stack, queues, _consumer: further_consumer(stack, queues, log_level="TRACE"),
        )


def test_an_environment_over_lambdas_limit_is_refused():
    """Lambda allows 4 KB, which CloudFormation would only find out in the middle of a deployment."""
    with pytest.raises(ConfigurationError, match="bytes and Lambda allows 4096"):
        foreign_stack(
            lanes_config(1),
            then=lambda stack, queues, _consumer: further_consumer(
                stack, queues, environment={"TEXT": "x" * 4000}
            ),
        )


def test_nine_lanes_fit_a_variable_and_twenty_a_parameter_that_the_function_may_read():
    """As the page says; the variable then names the parameter, and the table for who looks at the function alone."""
    nine, twenty = (foreign_template(lanes_config(number)) for number in (9, 20))
    ((name, parameter),) = resources(twenty, "AWS::SSM::Parameter").items()
    found = pointed(render(only_function(twenty)[1]["Environment"]["Variables"]["LANES_DEPLOYMENT"]))
    document = Deployment.from_json(render(parameter["Value"]))

    assert not resources(nine, "AWS::SSM::Parameter")
    assert found["parameter"] == f"<{name}>"
    assert found["table"] == document.table
    assert (len(document.queues), parameter["Tier"]) == (20, "Intelligent-Tiering")
    assert "ssm:GetParameter" in {action for action, _ in allowed(twenty, "ConsumerRole")}


def test_versions_that_still_run_keep_their_lanes():
    """Another document is another parameter, and CloudFormation removes the former one last."""
    names = {
        name
        for number in (20, 21)
        for name in resources(foreign_template(lanes_config(number)), "AWS::SSM::Parameter")
    }

    assert len(names) == 2


def test_more_lanes_than_a_parameter_holds_are_refused():
    """AWS would refuse them in the middle of the deployment."""
    with pytest.raises(
        ConfigurationError, match=r"a parameter holds 8192; use fewer lanes, of which some twenty"
    ):
        foreign_stack(lanes_config(26))


def test_a_metric_of_the_consumer_has_the_dimensions_that_it_reports():
    """The namespace, the lane and the service are those of the function's own metric objects."""
    found = []
    foreign_stack(
        lanes_config(2),
        then=lambda _stack, _queues, consumer: found.append(consumer.metric(Metric.YIELDED, "L1")),
    )

    (metric,) = found

    assert (metric.namespace, metric.metric_name, metric.statistic) == (
        "PriorityLanes",
        "YieldedMessages",
        "Sum",
    )
    assert metric.dimensions == {"lane": "L1", "service": "Foreign"}


def test_the_functions_role_can_be_granted_more():
    """You can grant the function more for your handlers."""
    stack = foreign_stack(
        lanes_config(1),
        then=lambda _stack, _queues, consumer: consumer.function.add_to_role_policy(
            iam.PolicyStatement(actions=["s3:GetObject"], resources=["arn:aws:s3:::orders/*"])
        ),
    )

    assert ("s3:GetObject", "arn:aws:s3:::orders/*") in allowed(Template.from_stack(stack), "Consumer")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "{name}".ljust(39, "X")},
        {"max_wait": "15m", "batch_size": 5, "maximum_concurrency": 5, "yield_delay_max": 20},
    ],
    ids=["as usual", "long names", "much set"],
)
def test_the_deployment_document_fits_the_environment_with_seven_lanes(changes):
    """Seven lanes with long URLs stay under Lambda's 4 KB, also with long names or most of their settings set."""
    lanes = [
        {**lane, **changes, "name": changes.get("name", "{name}").format(name=lane["name"])}
        for lane in lanes_config(7).to_dict(brief=True)["lanes"]
    ]
    config = LanesConfig.from_dict({"lanes": lanes, "consumer": {"idempotency": True, "max_attempts": 3}})
    template = foreign_template(config)
    _function, properties = only_function(template)
    url = "https://sqs.ap-southeast-1.amazonaws.com/123456789012/" + 80 * "q"

    document = json.loads(render(properties["Environment"]["Variables"]["LANES_DEPLOYMENT"]))
    for queue in document["queues"].values():
        queue.update(url=url, dead_letter_url=url)

    assert len(json.dumps(document, separators=(",", ":"))) < 4096
