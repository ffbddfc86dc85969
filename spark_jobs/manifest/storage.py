"""Storage of manifests: a local folder that all tasks share, or a prefix in S3, without Hadoop."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

S3_SCHEMES = ("s3", "s3a", "s3n")


class Storage(Protocol):
    """Files by name in one folder; names may contain slashes. All methods raise `OSError` or `AwsError`."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically: a reader sees all of it or nothing."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists, and give whether it was written; one of several writers succeeds."""

    def read(self, name: str) -> bytes:
        """Give the content of a file."""

    def names(self, prefix: str) -> Iterator[str]:
        """Give the names of all files with a prefix, in order."""


def open_storage(path: str, *, endpoint_url: str | None, region: str | None) -> Storage:
    """
    Open a folder.

    Args:
        path: A path, a `file:` URL, or `s3://bucket/prefix`.
        endpoint_url: Endpoint of AWS, if it is local.
        region: AWS region; None for that of the environment.

    Raises:
        ValueError: The path has another form.
    """
    url = urlsplit(path)
    if url.scheme in (*S3_SCHEMES, "file") and (url.query or url.fragment):
        # They are no part of the folder, so runs of one name in two such places would be taken for one.
        raise ValueError("an address without ? and # is needed")
    if url.scheme in S3_SCHEMES:
        if not url.netloc:
            raise ValueError("the name of a bucket is needed, as in s3://bucket/folder")
        return S3Storage(url.netloc, url.path.strip("/"), endpoint_url=endpoint_url, region=region)
    if url.scheme == "file" and url.netloc in ("", "localhost"):
        return LocalStorage(Path(unquote(url.path)))
    if not path or "://" in path:
        raise ValueError("a local folder or an address like s3://bucket/folder is needed")
    return LocalStorage(Path(path))


class LocalStorage:
    """Files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def write(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it."""
        self._new(name, content).replace(self._folder / name)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file under a temporary name and link it, which fails if the name is taken."""
        new = self._new(name, content)
        try:
            (self._folder / name).hardlink_to(new)
        except FileExistsError:
            return False
        finally:
            new.unlink()
        return True

    def _new(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A killed task may leave this file; `names` skips names that begin with a dot.
        new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        new.write_bytes(content)
        return new

    def read(self, name: str) -> bytes:
        """Give the content of a file."""
        return (self._folder / name).read_bytes()

    def names(self, prefix: str) -> Iterator[str]:
        """Give the names of all files with a prefix, in order."""
        parent, _, start = prefix.rpartition("/")
        for folder, folders, files in os.walk(self._folder / parent):
            inner = Path(folder).relative_to(self._folder).as_posix()
            at_top = Path(folder) == self._folder / parent
            folders[:] = sorted(one for one in folders if not at_top or one.startswith(start))
            for file in sorted(files):
                name = file if inner == "." else f"{inner}/{file}"
                if not file.startswith(".") and name.startswith(prefix):
                    yield name


class S3Storage:
    """Objects under a prefix of a bucket."""

    def __init__(self, bucket: str, prefix: str, *, endpoint_url: str | None, region: str | None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._endpoint_url = endpoint_url
        self._region = region
        self._s3: Any = None

    def write(self, name: str, content: bytes) -> None:
        """Write an object; in S3 every write is atomic."""
        with aws_errors("PutObject"):
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=content)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless its name is taken."""
        try:
            with aws_errors("PutObject"):
                self._client.put_object(
                    Bucket=self._bucket, Key=self._prefix + name, Body=content, IfNoneMatch="*"
                )
        except AwsError as error:
            # AWS: the second is the answer to one of two writes at the same time (AmazonS3 userguide,
            # conditional-writes).
            if error.code not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            return False
        return True

    def read(self, name: str) -> bytes:
        """Give the content of an object."""
        with aws_errors("GetObject"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            content: bytes = answer["Body"].read()
        return content

    def names(self, prefix: str) -> Iterator[str]:
        """Give the names of all objects with a prefix, in order."""
        pages = self._client.get_paginator("list_objects_v2")
        with aws_errors("ListObjectsV2"):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                for item in page.get("Contents", ()):
                    yield item["Key"].removeprefix(self._prefix)

    @property
    def _client(self) -> Any:
        if self._s3 is None:
            import boto3
            from botocore.config import Config

            self._s3 = boto3.client(
                "s3",
                endpoint_url=self._endpoint_url,
                region_name=self._region,
                # A local endpoint has no host name for each bucket.
                config=Config(
                    retries={"mode": "standard", "total_max_attempts": 5},
                    s3={"addressing_style": "path"} if self._endpoint_url else {},
                ),
            )
        return self._s3
