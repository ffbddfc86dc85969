"""Arguments that all jobs share (lanes, flow, reruns), and the writer options that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

# Options of the writer by argument.
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
    """Add the arguments for lanes, flow and reruns."""
    lanes = arguments.add_argument_group("lanes")
    lanes.add_argument("--stack", help="send to the lanes of this stack")
    lanes.add_argument("--deployment", metavar="JSON", help="send to the lanes of this deployment document")
    lanes.add_argument("--region", help="AWS region of the lanes")
    lanes.add_argument("--endpoint-url", metavar="URL", help="endpoint of AWS, if it is local")
    flow = arguments.add_argument_group("flow")
    flow.add_argument("--shards", metavar="N", help="spread rows without a group over N groups")
    flow.add_argument(
        "--ordering",
        choices=["group", "none"],
        help="keep the order within a group, or not (default group)",
    )
    flow.add_argument("--concurrency", metavar="N", help="calls in flight of each task (default 8)")
    flow.add_argument("--max-send-rate", metavar="R", help="maximum messages a second of the whole job")
    flow.add_argument("--max-backlog", metavar="N", help="pause while more messages wait in a lane")
    flow.add_argument(
        "--max-tasks", metavar="N", help="tasks that share both limits (default: from Spark's settings)"
    )
    reruns = arguments.add_argument_group("reruns")
    reruns.add_argument(
        "--manifest",
        metavar="DIR",
        help="folder, local or s3://, to record sent ids in; a rerun sends the rest",
    )
    reruns.add_argument(
        "--on-error",
        choices=["fail", "quarantine"],
        help="fail the job at a row that cannot be sent (default), or set such rows aside beside the manifest",
    )
    arguments.add_argument(
        "--master", default="local[2]", help="Spark master of a run without spark-submit (default local[2])"
    )


def writer_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Give the options of the writer that the arguments set."""
    options = {
        option: str(value)
        for name, option in OPTIONS.items()
        if (value := getattr(arguments, name, None)) is not None
    }
    if "manifestPath" not in options:
        # The name of a run only identifies its manifest.
        options.pop("runId", None)
    return options
