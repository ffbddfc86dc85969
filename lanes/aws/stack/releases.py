"""The versions of a Lambda function, and its alias for the live one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lanes.aws.errors import aws_errors
from lanes.operate.lanes.releases import ALIAS, Release


class FunctionReleases:
    """
    The releases of one function; every method raises `AwsError`.

    Args:
        function: name of the function.
        client: client of Lambda.
    """

    def __init__(self, *, function: str, client: Any) -> None:
        self._function = function
        self._client = client
        self._revision: str | None = None

    def live(self) -> int:
        """Return the live version."""
        with aws_errors("GetAlias"):
            alias = self._client.get_alias(FunctionName=self._function, Name=ALIAS)
        self._revision = alias["RevisionId"]
        return int(alias["FunctionVersion"])

    def all(self) -> list[Release]:
        """Return all published versions."""
        with aws_errors("ListVersionsByFunction"):
            pages = self._client.get_paginator("list_versions_by_function").paginate(
                FunctionName=self._function
            )
            found = [one for page in pages for one in page["Versions"]]
        return [_release(one) for one in found if one["Version"].isdecimal()]

    def make_live(self, version: int) -> None:
        """Make another version live; refused if the alias has changed since `live`."""
        revision = {} if self._revision is None else {"RevisionId": self._revision}
        with aws_errors("UpdateAlias"):
            self._client.update_alias(
                FunctionName=self._function, Name=ALIAS, FunctionVersion=str(version), **revision
            )


def _release(one: Any) -> Release:
    return Release(
        version=int(one["Version"]),
        changed=one["LastModified"],
        code=one["CodeSha256"],
        timeout=timedelta(seconds=one["Timeout"]),
        variables=one.get("Environment", {}).get("Variables", {}),
    )
