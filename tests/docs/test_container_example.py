"""The example of a process: its image, its packages, its service on ECS, and the wait for the task before it."""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.metadata import requires

import pytest
from aws_cdk.assertions import Template
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from packaging.requirements import Requirement

from examples.container.wait_for_predecessor import older_tasks, wait
from tests.docs.pages import ROOT
from tests.support.infrastructure import allowed, resources

EXAMPLE = ROOT / "examples" / "container"
IMAGE = {"extra": "", "python_version": "3.14", "sys_platform": "linux", "platform_system": "Linux"}
"""The image's answers to the markers of requirements."""


@pytest.fixture(scope="module")
def dockerfile():
    """Give the instructions of the Dockerfile with their arguments, in order."""
    text = (EXAMPLE / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def arguments(dockerfile, instruction):
    """Give the arguments of every use of an instruction."""
    return [argument for name, argument in dockerfile if name == instruction]


def copied(dockerfile):
    """Give the sources that the image copies from the checkout."""
    copies = [shlex.split(argument) for argument in arguments(dockerfile, "COPY")]
    return [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]


def pins(path):
    """Give the version of each package that a file of requirements pins."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(), re.MULTILINE))


def test_the_dockerfile_has_one_slim_base(dockerfile):
    """Each stage begins with the same Python, one that the library supports."""
    bases = {argument.split()[0] for argument in arguments(dockerfile, "FROM")}

    assert bases == {f"python:{IMAGE['python_version']}-slim-trixie"}


def test_the_process_gets_the_signal_and_has_no_rights(dockerfile):
    """Exec form, so that `lanes` is process 1; a user by number, which Kubernetes can tell from root."""
    (entrypoint,) = arguments(dockerfile, "ENTRYPOINT")

    assert json.loads(entrypoint) == ["lanes", "work", "--slots", "3", "handler:consumer"]
    assert arguments(dockerfile, "STOPSIGNAL") == ["SIGTERM"]
    assert int(arguments(dockerfile, "USER")[-1]) > 0


def test_the_image_has_the_module_and_the_consumer_that_it_starts(dockerfile):
    """`handler:consumer` is a file that is copied, and a name in it."""
    (handler,) = [source for source in copied(dockerfile) if source.endswith("/handler.py")]
    assigned = [
        target.id
        for node in ast.parse((ROOT / handler).read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
    ]

    assert "consumer" in assigned


def test_all_that_is_copied_exists_and_is_sent_to_the_build(dockerfile):
    """The list of ignored files keeps nothing back that the image or the library's wheel needs."""
    lines = (EXAMPLE / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {source for source in copied(dockerfile) if source != "."}
    needed |= {"pyproject.toml", "README.md", "LICENSE", "lanes/__init__.py"}
    needed |= {f"{folder}/__init__.py" for folder in wheel["only-include"]}
    needed |= set(wheel["force-include"])

    for source in needed:
        assert (ROOT / source).exists(), source
        assert any(source == one or source.startswith(f"{one}/") for one in kept), source
    assert "*" in lines


def test_packages_are_pinned_as_in_this_repository():
    """All packages that the library and its command need, no others, and each in the version that is tested here."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [*wanted["dependencies"], *wanted["optional-dependencies"]["cli"]]
    needed = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name not in needed and (
            requirement.marker is None or requirement.marker.evaluate(IMAGE)
        ):
            needed.add(requirement.name)
            waiting += requires(requirement.name) or []

    pinned = pins(EXAMPLE / "requirements.txt")
    tested = pins(ROOT / "requirements.txt")
    assert pinned == {name: tested[name] for name in sorted(needed)}


@pytest.fixture(scope="module")
def synthesised(tmp_path_factory, installed_environment):
    """Give the path of the app's template, synthesised elsewhere as you would."""
    folder = tmp_path_factory.mktemp("container")
    environment = installed_environment | {"CDK_OUTDIR": str(folder / "cdk.out"), "TMPDIR": str(folder)}
    subprocess.run([sys.executable, "app.py"], cwd=EXAMPLE, env=environment, check=True, timeout=100)
    return folder / "cdk.out" / "OrdersWorker.template.json"


@pytest.fixture(scope="module")
def template(synthesised):
    """Give the app's template."""
    return Template.from_json(json.loads(synthesised.read_text()))


def test_one_task_is_stopped_before_the_next_starts(template):
    """Otherwise two tasks would have the slots of both."""
    (service,) = resources(template, "AWS::ECS::Service").values()

    assert service["DesiredCount"] == 1
    assert (
        service["DeploymentConfiguration"].items()
        >= {"MaximumPercent": 100, "MinimumHealthyPercent": 0}.items()
    )
    assert service["AvailabilityZoneRebalancing"] == "DISABLED"


def test_the_worker_starts_after_its_predecessor_and_has_time_to_end(template):
    """Two containers of one image: the first waits, the second works."""
    (task,) = resources(template, "AWS::ECS::TaskDefinition").values()
    worker, first = task["ContainerDefinitions"]

    assert worker["StopTimeout"] == 120
    assert worker["DependsOn"] == [{"Condition": "SUCCESS", "ContainerName": first["Name"]}]
    assert worker["Image"] == first["Image"]
    assert (worker["Essential"], first["Essential"]) == (True, False)
    assert first["EntryPoint"] == ["python", "wait_for_predecessor.py"]
    assert "LANES_DEPLOYMENT" in {variable["Name"] for variable in worker["Environment"]}
    assert all(container["ReadonlyRootFilesystem"] for container in (worker, first))
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"


def test_the_tasks_role_is_as_narrow_as_that_of_the_function(template):
    """Beside it only the tasks of its own cluster, which it lists while it waits."""
    granted = allowed(template, "TaskTaskRole")
    actions = {action for action, _ in granted}

    assert {action for action in actions if action.startswith("sqs:")} == {
        *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"),
        "sqs:SendMessage",
    }
    assert {action for action, resource in granted if resource == "*"} == {
        "ecs:ListTasks",
        "ecs:DescribeTasks",
    }
    assert {action.partition(":")[0] for action in actions} == {"sqs", "dynamodb", "ecs"}


def test_cloudformation_would_take_the_template(synthesised):
    """cfn-lint agrees with every property."""
    matches = lint(synthesised.read_text(), config=ManualArgs(regions=["eu-central-1"]))

    assert [str(match) for match in matches] == []


START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeEcs:
    """The tasks of one family, as far as the example asks for them."""

    def __init__(self, *tasks):
        self.tasks = {task["taskArn"]: task for task in tasks}

    def describe_tasks(self, *, cluster, tasks):
        assert cluster == "workers"
        assert 0 < len(tasks) <= 100
        return {"tasks": [self.tasks[arn] for arn in tasks], "failures": []}

    def get_paginator(self, operation):
        assert operation == "list_tasks"
        return self

    def paginate(self, *, cluster, family, desiredStatus):  # noqa: N803 - ECS's name
        assert (cluster, family) == ("workers", "orders")
        arns = [arn for arn, task in self.tasks.items() if task["desiredStatus"] == desiredStatus]
        return [{"taskArns": arns[:1]}, {"taskArns": arns[1:]}]


def task(name, *, minute=None, desired="RUNNING", last="RUNNING"):
    """Describe a task; one without a minute is still being provisioned."""
    created = {} if minute is None else {"createdAt": START + timedelta(minutes=minute)}
    return {"taskArn": name, "desiredStatus": desired, "lastStatus": last, **created}


def older(*tasks):
    """Give the tasks that "own" would wait for."""
    return older_tasks(FakeEcs(task("own", minute=5), *tasks), cluster="workers", family="orders", task="own")


@pytest.mark.parametrize("last", ["RUNNING", "DEACTIVATING", "STOPPING"])
def test_a_task_that_is_still_stopping_is_waited_for(last):
    """ECS no longer counts it, and its container may be at work."""
    assert older(task("old", minute=1, desired="STOPPED", last=last)) == ["old"]


@pytest.mark.parametrize("last", ["DEPROVISIONING", "STOPPED", "DELETED"])
def test_a_task_without_containers_is_not(last):
    """Its containers have ended."""
    assert older(task("old", minute=1, desired="STOPPED", last=last)) == []


def test_of_two_tasks_only_the_younger_one_waits():
    """So a second task, started by mistake, never works beside the first."""
    assert older(task("second", minute=6), task("third", last="PROVISIONING")) == []
    assert older(task("first", minute=4)) == ["first"]


def test_tasks_of_one_moment_do_not_wait_for_each_other():
    """Their names decide."""
    ecs = FakeEcs(task("a", minute=1), task("b", minute=1))

    assert older_tasks(ecs, cluster="workers", family="orders", task="a") == []
    assert older_tasks(ecs, cluster="workers", family="orders", task="b") == ["a"]


def test_it_looks_until_the_older_task_has_ended():
    """And sleeps between two looks."""
    answers, slept = [["old"], ["old"], []], []

    wait(lambda: answers.pop(0), sleep=slept.append)

    assert answers == []
    assert slept == [2.0, 2.0]
