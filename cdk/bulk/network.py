"""The network of Spark jobs: a closed VPC that reaches SQS, S3 and, if asked to, Glue, and nothing else."""

import re
from collections.abc import Sequence

from aws_cdk import Annotations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from lanes.errors import ConfigurationError

from ..findings import acknowledge
from ..props import checked
from ..queues.lane_queue import LaneQueue
from .permissions import Catalog

HTTPS = ec2.Port.tcp(443)
# AWS: without a VPC a job reaches some services only, and SQS is not listed (EMR-Serverless-UserGuide/considerations).
MAX_ZONES = 2
ZONE_ID = re.compile(r"[a-z]+\d-az\d+")


class JobNetwork(Construct):
    """
    Subnets and a security group for the workers of jobs.

    EMR Serverless reaches S3 without a VPC, but SQS only through one. If you pass no VPC, the construct makes one:
    isolated subnets in two zones, an interface endpoint of SQS that only allows sending to these lanes, and a gateway
    endpoint of S3, where EMR has buckets of its own. A catalog adds an interface endpoint of Glue, and runs to follow a
    gateway endpoint of DynamoDB. There is no NAT gateway and no route to the internet.

    AWS charges each interface endpoint by the hour and zone, whether jobs run or not: in two zones about $15 a month.
    Gateway endpoints are free.

    Example:
        >>> network = JobNetwork(self, "Network", lanes=[queues.lane("MAIN")])

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        lanes: The lanes that jobs send to.
        vpc: A VPC with private or isolated subnets and a route to SQS and S3. By default the construct makes one.
        zones: The names of the zones of the closed VPC, such as ``us-east-1a``. By default the first two of the region;
            EMR Serverless is not in every zone.
        catalog: The part of the Glue Data Catalog that jobs read, none by default.
        runs: The table with the runs that jobs follow, none by default.

    Raises:
        ConfigurationError: ``zones`` has the id of a zone, or comes with a VPC of yours.

    Attributes:
        vpc: The VPC.
        subnets: The subnets of the workers.
        workers: The security group of the workers.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lanes: list[LaneQueue],
        vpc: ec2.IVpc | None = None,
        zones: Sequence[str] = (),
        catalog: Catalog | None = None,
        runs: dynamodb.ITable | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        _refuse(zones, own_vpc=vpc is not None)
        self.vpc = vpc or self._closed_vpc(zones)
        self.workers = ec2.SecurityGroup(
            self, "Workers", vpc=self.vpc, description="Workers of bulk jobs", allow_all_outbound=True
        )
        self.workers.add_ingress_rule(self.workers, ec2.Port.all_tcp(), "drivers and executors of a job")
        if vpc is None:
            self._add_endpoints(lanes, catalog)
            if runs is not None:
                self._add_runs(runs)
        kind = (
            ec2.SubnetType.PRIVATE_ISOLATED
            if self.vpc.isolated_subnets
            else ec2.SubnetType.PRIVATE_WITH_EGRESS
        )
        self.subnets = self.vpc.select_subnets(subnet_type=kind)

    def _closed_vpc(self, zones: Sequence[str]) -> ec2.Vpc:
        if not zones:
            # AWS: in us-east-1, for example, use1-az3 is missing (EMR-Serverless-UserGuide/endpoints-quotas).
            Annotations.of(self).add_info_v2(
                "lanes:bulkZones",
                "The subnets of bulk jobs are in the first two zones of the region, and EMR Serverless is not in "
                "every zone. If the deployment refuses a subnet, name other zones: -c bulk_zones=us-east-1a,us-east-1b",
            )
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=None if zones else MAX_ZONES,
            availability_zones=[*zones] or None,
            nat_gateways=0,
            # One address for each worker; a /20 has four thousand.
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Jobs", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20
                )
            ],
            restrict_default_security_group=False,
        )
        acknowledge(
            vpc,
            "AwsSolutions::AwsSolutions-VPC7",
            "The VPC connects only to endpoints of AWS, so there are no other flows to log",
        )
        return vpc

    def _add_endpoints(self, lanes: list[LaneQueue], catalog: Catalog | None) -> None:
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        bell = lanes[0].bell
        queues = [lane.queue for lane in lanes] + ([] if bell is None else [bell.queue])
        self._add_endpoint(
            "Sqs",
            ec2.InterfaceVpcEndpointAwsService.SQS,
            actions=["sqs:SendMessage", "sqs:GetQueueAttributes"],
            resources=[queue.queue_arn for queue in queues],
        )
        if catalog is not None:
            self._add_endpoint(
                "Glue",
                ec2.InterfaceVpcEndpointAwsService.GLUE,
                actions=catalog.actions,
                resources=catalog.resources,
            )

    def _add_runs(self, table: dynamodb.ITable) -> None:
        endpoint = self.vpc.add_gateway_endpoint("Runs", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        endpoint.add_to_policy(
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["dynamodb:GetItem", "dynamodb:UpdateItem"],
                resources=[table.table_arn],
            )
        )

    def _add_endpoint(
        self,
        name: str,
        service: ec2.InterfaceVpcEndpointAwsService,
        *,
        actions: Sequence[str],
        resources: Sequence[str],
    ) -> None:
        group = ec2.SecurityGroup(
            self, f"{name}Access", vpc=self.vpc, description=f"Endpoint of {name}", allow_all_outbound=False
        )
        group.add_ingress_rule(self.workers, HTTPS, "workers call it")
        endpoint = self.vpc.add_interface_endpoint(name, service=service, security_groups=[group], open=False)
        endpoint.add_to_policy(
            iam.PolicyStatement(principals=[iam.AnyPrincipal()], actions=[*actions], resources=[*resources])
        )


def _refuse(zones: Sequence[str], *, own_vpc: bool) -> None:
    problems = [
        f"zone {zone!r} is the id of a zone; give its name in your account, such as us-east-1a, from "
        "`aws ec2 describe-availability-zones`"
        for zone in zones
        if ZONE_ID.fullmatch(zone)
    ]
    if zones and own_vpc:
        problems.append("zones are given together with a VPC of your own; select its subnets instead")
    if problems:
        raise ConfigurationError(problems, source="bulk jobs")
