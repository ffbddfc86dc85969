"""The network of Spark jobs: a closed VPC that reaches SQS and S3 and nothing else."""

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from ..findings import acknowledge
from ..queues.lane_queues import LaneQueue

HTTPS = ec2.Port.tcp(443)


class JobNetwork(Construct):
    """
    Subnets and a security group for the workers of jobs.

    EMR Serverless reaches S3 without a VPC, but SQS only through one. If you pass no VPC, the construct makes one:
    isolated subnets in two zones, an interface endpoint of SQS that only allows sending to these lanes, and a gateway
    endpoint of S3, which is free. There is no NAT gateway and no route to the internet.

    Example:
        >>> network = JobNetwork(self, "Network", lanes=[queues.lane("MAIN")])

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        lanes: The lanes that jobs send to.
        vpc: A VPC with private or isolated subnets and a route to SQS and S3. By default the construct makes one.

    Attributes:
        vpc: The VPC.
        subnets: The subnets of the workers.
        workers: The security group of the workers.

    """

    def __init__(
        self, scope: Construct, construct_id: str, *, lanes: list[LaneQueue], vpc: ec2.IVpc | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc = vpc or self._closed_vpc()
        self.workers = ec2.SecurityGroup(
            self, "Workers", vpc=self.vpc, description="Workers of bulk jobs", allow_all_outbound=True
        )
        self.workers.add_ingress_rule(self.workers, ec2.Port.all_tcp(), "drivers and executors of a job")
        if vpc is None:
            self._add_endpoints(lanes)
        kind = (
            ec2.SubnetType.PRIVATE_ISOLATED
            if self.vpc.isolated_subnets
            else ec2.SubnetType.PRIVATE_WITH_EGRESS
        )
        self.subnets = self.vpc.select_subnets(subnet_type=kind)

    def _closed_vpc(self) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
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
            "The VPC connects only to two endpoints of AWS, so there are no other flows to log",
        )
        return vpc

    def _add_endpoints(self, lanes: list[LaneQueue]) -> None:
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        group = ec2.SecurityGroup(
            self, "SqsAccess", vpc=self.vpc, description="Endpoint of SQS", allow_all_outbound=False
        )
        group.add_ingress_rule(self.workers, HTTPS, "workers send messages")
        endpoint = self.vpc.add_interface_endpoint(
            "Sqs", service=ec2.InterfaceVpcEndpointAwsService.SQS, security_groups=[group], open=False
        )
        bell = lanes[0].bell
        queues = [lane.queue for lane in lanes] + ([] if bell is None else [bell.queue])
        endpoint.add_to_policy(
            iam.PolicyStatement(
                principals=[iam.AnyPrincipal()],
                actions=["sqs:SendMessage", "sqs:GetQueueAttributes"],
                resources=[queue.queue_arn for queue in queues],
            )
        )
