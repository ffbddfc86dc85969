"""The launchers that the set-up writes, run beside an app with packages of its own."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SET_UP = Path(__file__).parents[2] / ".ci" / "set-up"
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    "-m venv"*)
        mkdir -p .venv/bin
        cp "$0" .venv/bin/python
        printf '#!/bin/sh\\necho "uv $UV_CACHE_DIR" >>"{log}"; exit 1\\n' >.venv/bin/uv
        chmod +x .venv/bin/uv ;;
    *"-m pip"*)
        echo "$*" >>"{log}"
        case "$*" in *requirements.txt) exit 1 ;; esac ;;
esac
"""
"""A Python whose environment has an uv that fails; it writes down how packages would be installed."""


def launcher(name, **variables):
    """Give the script of a launcher as the set-up writes it."""
    (text,) = re.findall(
        rf"^launcher {re.escape(name)} <<END\n(.*?)^END$", SET_UP.read_text(), re.DOTALL | re.MULTILINE
    )
    for variable, value in variables.items():
        text = re.sub(rf"(?<!\\)\${variable}\b", str(value), text)
    return text.replace("\\$", "$")


@pytest.mark.parametrize(("active", "first"), [("/app/venv", "/app/venv/bin"), ("", "BIN")])
def test_cdk_starts_an_app_with_the_python_of_the_active_environment(tmp_path, active, first):
    """Which has the packages of the app; without one, that of this checkout has them."""
    node = tmp_path / "node"
    node.write_text('#!/bin/sh\necho "$PATH"\n')
    node.chmod(0o755)
    script = launcher(".venv/bin/cdk", bin=tmp_path, packages="/packages")
    before = f"{active}/bin:/usr/bin:/bin" if active else "/usr/bin:/bin"

    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": before, "VIRTUAL_ENV": active},
        capture_output=True,
        text=True,
        check=True,
    )

    folders = done.stdout.strip().split(":")
    assert folders[0] == first.replace("BIN", str(tmp_path))
    assert str(tmp_path) in folders


def test_set_up_writes_nothing_outside_its_environment(tmp_path):
    """A cache in the home folder would grow by more than a gigabyte each time, until the disk is full."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(SET_UP, tmp_path / ".ci")
    (tmp_path / "requirements.txt").write_text("uv==1 \\\n    --hash=sha256:0\nsix==1\n")
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(log=tmp_path / "log"))
    python.chmod(0o755)

    done = subprocess.run(
        [tmp_path / ".ci" / "set-up"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )

    for_uv, by_uv, instead = (tmp_path / "log").read_text().splitlines()
    assert done.returncode == 1, done.stderr
    assert Path(by_uv.split()[-1]).is_relative_to(tmp_path / ".venv")
    assert "--no-cache-dir" in for_uv
    assert "--no-cache-dir" in instead
