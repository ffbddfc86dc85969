"""
Wait until no older task of this service is left, so that two of them never work at once.

ECS starts a task while the one before it is still stopping. This runs first in each task, in a container of its own;
the worker starts when it has ended.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import boto3
import urllib3

logger = logging.getLogger("wait_for_predecessor")

ENDED = {"DEPROVISIONING", "STOPPED", "DELETED"}
SECONDS_BETWEEN_LOOKS = 2.0


def older_tasks(ecs: Any, *, cluster: str, family: str, task: str) -> list[str]:
    """Return the ARNs of the tasks of the family that began before this one and have not ended."""
    (own,) = ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"]
    found = []
    # AWS: a stopping task is listed under STOPPED, its desired status (API_ListTasks). In this order, a task that
    # begins to stop between the two calls is in one of the answers.
    for desired in ("RUNNING", "STOPPED"):
        pages = ecs.get_paginator("list_tasks")
        for page in pages.paginate(cluster=cluster, family=family, desiredStatus=desired):
            if page["taskArns"]:
                found += ecs.describe_tasks(cluster=cluster, tasks=page["taskArns"])["tasks"]
    return [one["taskArn"] for one in found if one["lastStatus"] not in ENDED and _began(one) < _began(own)]


def wait(look: Callable[[], list[str]], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when no older task is left."""
    while older := look():
        logger.info("waiting for %s to end", ", ".join(older))
        sleep(SECONDS_BETWEEN_LOOKS)


def main() -> None:
    """Wait in the task that this process runs in."""
    logging.basicConfig(level=logging.INFO)
    own = urllib3.request("GET", os.environ["ECS_CONTAINER_METADATA_URI_V4"] + "/task").json()
    ecs = boto3.client("ecs")
    wait(lambda: older_tasks(ecs, cluster=own["Cluster"], family=own["Family"], task=own["TaskARN"]))


def _began(task: dict[str, Any]) -> tuple[float, str]:
    """Return a sort key; a task that is still being provisioned has no time yet, and is the youngest."""
    created = task.get("createdAt")
    return (created.timestamp() if created else float("inf")), task["taskArn"]


if __name__ == "__main__":
    main()
