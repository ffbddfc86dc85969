"""Your lanes with a process as the consumer: one task on ECS, and no function."""

from pathlib import Path

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct
from lanes_cdk import LaneQueues, LanesParameter, Ledger

from lanes import LanesConfig

HERE = Path(__file__).parent
IMAGE = ("orders-worker", "1")
"""Repository in ECR and tag. Give each image its own tag."""


class WorkerStack(Stack):
    """Two lanes, their ledger, and a service of one task with three slots."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self.queues = LaneQueues(self, "Lanes", config=LanesConfig.load(HERE / "lanes.toml"))
        self.ledger = Ledger(self, "Ledger")
        self.parameter = LanesParameter(self, "Parameter", queues=self.queues, ledger=self.ledger)
        public = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)
        network = ec2.Vpc(self, "Network", max_azs=2, nat_gateways=0, subnet_configuration=[public])
        self.cluster = ecs.Cluster(self, "Cluster", vpc=network)
        task = self._task()
        self._grant(task.task_role)
        ecs.FargateService(
            self,
            "Service",
            cluster=self.cluster,
            task_definition=task,
            assign_public_ip=True,
            # The slots are those of one task: the old one stops before the next one starts.
            desired_count=1,
            max_healthy_percent=100,
            min_healthy_percent=0,
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
        )

    def _task(self) -> ecs.FargateTaskDefinition:
        platform = ecs.RuntimePlatform(
            cpu_architecture=ecs.CpuArchitecture.ARM64,
            operating_system_family=ecs.OperatingSystemFamily.LINUX,
        )
        task = ecs.FargateTaskDefinition(
            self, "Task", cpu=256, memory_limit_mib=512, runtime_platform=platform
        )
        repository, tag = IMAGE
        image = ecs.ContainerImage.from_ecr_repository(
            ecr.Repository.from_repository_name(self, "Repository", repository), tag
        )
        log = ecs.LogDrivers.aws_logs(
            stream_prefix="worker",
            log_group=logs.LogGroup(self, "Logs", retention=logs.RetentionDays.ONE_MONTH),
        )
        region = {"AWS_DEFAULT_REGION": self.region}
        worker = task.add_container(
            "Worker",
            image=image,
            logging=log,
            readonly_root_filesystem=True,
            stop_timeout=Duration.seconds(120),  # the most that Fargate gives a record in hand
            environment={
                "LANES_DEPLOYMENT": self.parameter.parameter.string_value,
                "POWERTOOLS_METRICS_NAMESPACE": "PriorityLanes",
                "POWERTOOLS_SERVICE_NAME": self.stack_name,
                **region,
            },
        )
        # AWS: maximum percent does not count a task that is stopping (API_DeploymentConfiguration), so this container
        # waits for its end.
        first = task.add_container(
            "WaitForPredecessor",
            image=image,
            logging=log,
            readonly_root_filesystem=True,
            essential=False,
            stop_timeout=Duration.seconds(2),
            entry_point=["python", "wait_for_predecessor.py"],
            environment=region,
        )
        worker.add_container_dependencies(
            ecs.ContainerDependency(container=first, condition=ecs.ContainerDependencyCondition.SUCCESS)
        )
        return task

    def _grant(self, role: iam.IRole) -> None:
        for lane in self.queues.lanes:
            lane.grant_consume(role)
            lane.grant_dead_letter(role)
            lane.grant_send(role)
        self.ledger.grant_keep(role)
        in_cluster = {"ArnEquals": {"ecs:cluster": self.cluster.cluster_arn}}
        actions = ["ecs:ListTasks", "ecs:DescribeTasks"]
        role.add_to_principal_policy(
            iam.PolicyStatement(actions=actions, resources=["*"], conditions=in_cluster)
        )


app = App()
WorkerStack(app, "OrdersWorker")
app.synth()
