"""The command where the package was installed without the extra `cli`."""

import subprocess
import sys

import pytest

from lanes.installing import install_hint
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
    assert done.stderr == f"error: {name} is not installed: {install_hint('cli')}\n"


def test_an_interrupt_while_it_is_loaded_ends_it_without_a_traceback():
    """As an interrupt ends it at any later moment."""
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'lanes.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from lanes.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (130, "")
