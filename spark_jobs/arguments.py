"""Arguments that all jobs take (which lanes, how fast, what a rerun does) and the writer's options made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

# Arguments that are options of the writer under another name.
OPTIONS = {
    "stack": "stack",
    "deployment": "deployment",
    "region": "region",
    "endpoint_url": "endpointUrl",
    "priority": "priority",
    "shards": "shards",
    "ordering": "ordering",
    "concurrency": "concurrency",
    "max_send_rate": "maxSendRate",
    "max_backlog": "maxBacklog",
    "max_tasks": "maxTasks",
    "on_error": "onError",
    "run": "runId",
    "manifest": "manifestPath",
}


def add_writer_arguments(arguments: argparse.ArgumentParser) -> None:
    """Add what says where messages go and how."""
    lanes = arguments.add_argument_group("lanes")
    lanes.add_argument("--stack", help="send to the lanes of this stack")
    lanes.add_argument("--deployment", metavar="JSON", help="send to these lanes, a deployment document")
    lanes.add_argument("--region", help="AWS region of the lanes")
    lanes.add_argument("--endpoint-url", metavar="URL", help="address of AWS, for a local one")
    flow = arguments.add_argument_group("flow")
    flow.add_argument("--shards", metavar="N", help="spread rows without a group over N groups")
    flow.add_argument("--ordering", choices=["group", "none"], help="keep the order within a group, or not")
    flow.add_argument("--concurrency", metavar="N", help="calls on their way for each task (default 8)")
    flow.add_argument("--max-send-rate", metavar="R", help="messages a second at most, of the whole job")
    flow.add_argument("--max-backlog", metavar="N", help="hold back while more messages wait in a lane")
    flow.add_argument("--max-tasks", metavar="N", help="tasks that share both (default: as Spark is set)")
    reruns = arguments.add_argument_group("reruns")
    reruns.add_argument(
        "--manifest", metavar="DIR", help="write down what was sent, local or s3://; a rerun sends the rest"
    )
    reruns.add_argument(
        "--on-error",
        choices=["fail", "quarantine"],
        help="a row that can't be sent fails the job (default) or is put beside the manifest",
    )
    arguments.add_argument(
        "--master", default="local[2]", help="of a run without spark-submit (default local[2])"
    )


def writer_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Give the options of the writer that the arguments ask for."""
    given = {
        option: str(value)
        for name, option in OPTIONS.items()
        if (value := getattr(arguments, name, None)) is not None
    }
    if "manifestPath" not in given:
        # Without a manifest there is nothing that a run's name could find.
        given.pop("runId", None)
    return given
