"""The session of a task, with the models of AWS's services that an earlier task of its worker has read."""

from __future__ import annotations

from functools import cache

import boto3
import botocore.session
from botocore.loaders import Loader, create_loader


def task_session() -> boto3.Session:
    """Make a session; it shares nothing but the models, so credentials are looked up anew for each task."""
    session = botocore.session.get_session()
    made = boto3.Session(botocore_session=session)
    # After boto3's own start, which adds a path to the loader each time.
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return made


# Spark uses a worker for many tasks. Reading the models of SQS takes 40 ms, the rest of a client 4 ms.
@cache
def _loader(data_path: str | None) -> Loader:
    return create_loader(data_path)
