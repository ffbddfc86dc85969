"""LanesParameter: where producers find the lanes."""

from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from cdk import LanesParameter, Ledger
from tests.support.infrastructure import allowed, foreign_stack, lanes_config, resources

PARAMETER = "AWS::SSM::Parameter"


def test_the_parameter_holds_what_the_function_knows(template):
    """Producers and consumer read the same document."""
    (function,) = resources(template, "AWS::Lambda::Function").values()
    (parameter,) = resources(template, PARAMETER).values()

    assert parameter["Value"] == function["Environment"]["Variables"]["LANES_DEPLOYMENT"]


def test_the_parameter_is_found_by_the_stacks_name(template):
    """Producer.from_stack looks for /lanes/<stack name>, and an output says so."""
    ((name, parameter),) = resources(template, PARAMETER).items()

    assert parameter["Name"] == "/lanes/PriorityLanes"
    template.has_output("LanesParameter", {"Value": {"Ref": name}})


def test_a_reader_may_read_this_parameter_and_nothing_else():
    """grant_read gives GetParameter on the one parameter, under the name that was chosen."""

    def add_reader(stack, queues, _consumer):
        parameter = LanesParameter(
            stack,
            "Parameter",
            queues=queues,
            ledger=Ledger(stack, "OtherLedger"),
            parameter_name="/shop/lanes",
        )
        parameter.grant_read(iam.Role(stack, "Reader", assumed_by=iam.AccountRootPrincipal()))

    template = Template.from_stack(foreign_stack(lanes_config(2), then=add_reader))

    ((name, parameter),) = resources(template, PARAMETER).items()
    assert parameter["Name"] == "/shop/lanes"
    assert allowed(template, "Reader") == {
        ("ssm:GetParameter", f"arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>:parameter<{name}>")
    }
