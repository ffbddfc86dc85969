"""The command where the package was installed without the extra `cli`."""

import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

BLOCKED = "import sys; sys.modules[{name!r}] = None; import lanes.__main__ as command; command.main()"


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_a_package_that_is_missing_is_named_with_what_to_install(name):
    """One line, no traceback."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(name=name), "status"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == f"error: {name} is not installed: pip install 'priority-lanes[cli]'\n"
