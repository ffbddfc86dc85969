"""The launchers that the set-up writes, run beside an app with packages of its own."""

import re
import subprocess
from pathlib import Path

import pytest

SET_UP = Path(__file__).parents[2] / ".ci" / "set-up"


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
