"""Python 3.14, the function's own runtime, evaluates annotations when somebody asks: handlers are registered on it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / ".venv" / "python-3.14"
FILES = ("consumer/test_annotations.py", "test_data.py", "test_encoding.py")
OPTIONS = (
    *(
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        "/work",
        "--import-mode",
        "importlib",
        "--noconftest",
        "-W",
        "error",
    ),
    # WebAssembly has no processes.
    *("-p", "no:cacheprovider", "-k", "not cold_start"),
)


@pytest.mark.deep
@pytest.mark.skipif(not (NATIVE / ".complete").exists(), reason="set-up could not get Python 3.14")
def test_handlers_and_their_data_work_on_the_functions_own_runtime():
    """With the packages of this environment, and as WebAssembly those with native code."""
    packages = next(one for one in sys.path if one.endswith("site-packages"))
    program = [
        str(ROOT / ".venv/bin/node"),
        str(ROOT / ".ci/python-3.14/run.mjs"),
        str(ROOT),
        packages,
        str(NATIVE),
    ]
    files = [f"tests/unit/{name}" for name in FILES]
    done = subprocess.run([*program, *OPTIONS, *files], capture_output=True, text=True, check=False)

    assert (done.returncode, " passed" in done.stdout) == (0, True), (done.stdout + done.stderr)[-3000:]
