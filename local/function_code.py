"""The deployed code of functions, fetched from Lambda's location and unzipped once per content."""

import io
import shutil
import sys
import tempfile
import zipfile
from base64 import b64decode
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


class CodeStore:
    """
    Unzipped code below one directory, by content; several processes may share it.

    Args:
        s3: client of the AWS server.
        directory: where the task roots lie.
    """

    def __init__(self, *, s3: Any, directory: Path) -> None:
        self._s3 = s3
        self._directory = directory

    def task_root(self, location: str, *, code_sha256: str) -> Path:
        """
        The folder with the code of a function.

        Args:
            location: Code.Location of GetFunction; it names Lambda's own bucket and the key in it.
            code_sha256: CodeSha256 of the function.
        """
        # The digest is base64; the folder's name must not contain a slash.
        root = self._directory / b64decode(code_sha256).hex()[:32]
        if not root.exists():
            self._unzip(self._fetch(location), root)
        return root

    def _fetch(self, location: str) -> bytes:
        parts = urlparse(location)
        bucket = parts.netloc.split(".s3.")[0]
        stored = self._s3.get_object(Bucket=bucket, Key=unquote(parts.path.lstrip("/")))
        return bytes(stored["Body"].read())

    def _unzip(self, archive: bytes, root: Path) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._directory, prefix="unzip-"))
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            opened.extractall(scratch)
        _drop_foreign(scratch)
        try:
            scratch.rename(root)
        except OSError:
            # Another process was faster; its copy is the same.
            shutil.rmtree(scratch)
            if not root.exists():
                raise


def _drop_foreign(root: Path) -> None:
    """Remove packages with native code for another machine or Python; this environment has its own."""
    ours = _machine_of(Path(sys.executable))
    files = [(file, f".{file.name.partition('.')[2]}") for file in root.rglob("*.so")]
    foreign = [one for one, suffix in files if suffix not in EXTENSION_SUFFIXES or _machine_of(one) != ours]
    for package in {file.relative_to(root).parts[0] for file in foreign}:
        shutil.rmtree(root / package, ignore_errors=True)


def _machine_of(file: Path) -> bytes:
    """Return the class and the machine of an ELF file."""
    header = file.read_bytes()[:20]
    return header[:5] + header[18:]
