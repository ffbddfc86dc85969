"""The deployed code of functions on this machine."""

import io
import sysconfig
import zipfile
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace

import msgspec

from local.function_code import CodeStore


def test_packages_with_native_code_of_another_machine_are_left_out(tmp_path):
    """The asset is for Lambda's platform; a function on this machine imports what this environment has."""
    native = next(Path(msgspec.__file__).parent.glob("_core*.so")).read_bytes()
    elsewhere = native[:18] + b"\xff\xff" + native[20:64]
    ours = sysconfig.get_config_var("EXT_SUFFIX")
    files = {
        "handler.py": b"",
        "pure/__init__.py": b"",
        f"same/_core{ours}": native,
        "older/__init__.py": b"",
        "older/_core.cpython-39-x86_64-linux-gnu.so": native,
        "foreign/inside/_core.abi3.so": elsewhere,
        "foreign/other/_core.abi3.so": elsewhere,
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    s3 = SimpleNamespace(get_object=lambda **_: {"Body": io.BytesIO(archive.getvalue())})

    root = CodeStore(s3=s3, directory=tmp_path).task_root(
        "https://b.s3.amazonaws.com/k", code_sha256=b64encode(b"1" * 32).decode()
    )

    assert {file.name for file in root.iterdir()} == {"handler.py", "pure", "same"}
