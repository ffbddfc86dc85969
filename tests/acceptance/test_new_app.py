"""The release is complete; what it does in an empty folder is in test_tutorials.py."""

import tarfile
import zipfile
from email import message_from_bytes

import pytest

import lanes

pytestmark = pytest.mark.deep


def test_wheel_and_sdist_are_complete(release):
    """All packages, files beside them, the licence and one version; nothing of tests and examples."""
    (wheel,), (sdist,) = release.glob("*.whl"), release.glob("*.tar.gz")
    info = f"priority_lanes-{lanes.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as opened:
        files = set(opened.namelist())
        metadata = message_from_bytes(opened.read(f"{info}/METADATA"))
    with tarfile.open(sdist) as opened:
        sources = {name.partition("/")[2] for name in opened.getnames()}
    tops = {name.split("/")[0] for name in files} - {info}
    template = "lanes/cli/template/app.py.template"

    assert tops == {"lanes", "lanes_cdk", "lanes_local", "lanes_simulator", "lanes_spark"}
    assert {f"{top}/py.typed" for top in tops} <= files
    assert {
        "lanes/ui/assets/index.html",
        template,
        "lanes_simulator/prices.toml",
        "lanes_cdk/alarms/runbook.md",
    } <= files
    assert f"{info}/licenses/LICENSE" in files
    assert (metadata["Version"], metadata["License-Expression"]) == (lanes.__version__, "MIT")
    assert "# Priority Lanes" in metadata.get_payload()
    assert {"LICENSE", "README.md", "pyproject.toml", template} <= sources
