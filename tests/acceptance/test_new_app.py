"""From an empty folder to a handled message with five commands, with the built wheel in a clean environment."""

import subprocess
import sys
import tarfile
import time
import zipfile
from email import message_from_bytes

import pytest

import lanes
from cdk.alarms.rule import Page
from tests.support.command import UV, line_with, run
from tests.support.waiting import until

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
    assert {"lanes/ui/assets/index.html", template, "lanes_simulator/prices.toml"} <= files
    assert {f"lanes_cdk/alarms/pages/{page}.md" for page in Page} <= files
    assert f"{info}/licenses/LICENSE" in files
    assert (metadata["Version"], metadata["License-Expression"]) == (lanes.__version__, "MIT")
    assert "# Priority Lanes" in metadata.get_payload()
    assert {"LICENSE", "README.md", "pyproject.toml", template} <= sources


def test_five_commands_lead_from_an_empty_folder_to_a_handled_message(release, environment, tmp_path, capsys):
    """As the README has them. A saved handler is live without a deploy, also with an import that it had not before."""
    (wheel,) = release.glob("*.whl")
    began = time.monotonic()
    bin_folder = tmp_path / ".venv" / "bin"

    run([UV, "venv", "--quiet", "--python", sys.executable, ".venv"], cwd=tmp_path, environment=environment)
    install = [UV, "pip", "install", "--quiet", "--python", bin_folder / "python"]
    run([*install, f"priority-lanes[local] @ {wheel.as_uri()}"], cwd=tmp_path, environment=environment)
    run([bin_folder / "lanes", "new", "shop"], cwd=tmp_path, environment=environment)
    up = subprocess.Popen(
        [bin_folder / "lanes", "local", "up", "shop"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    send = [bin_folder / "lanes", "local", "run", "--app", "shop", bin_folder / "python", "shop/send.py"]
    try:
        line_with("Stop with Ctrl-C.", up)
        handler = tmp_path / "shop" / "function" / "handler.py"
        handler.write_text(f"{handler.read_text()}\n")
        line_with("live in ", up)
        run(send, cwd=tmp_path, environment=environment)
        until(lambda: {"shipping order 7", "shipping order 8"} <= handled(tmp_path))
        took = time.monotonic() - began

        changed = handler.read_text().replace("shipping order", "shipping now")
        handler.write_text(changed.replace("import Consumer, Message", "import Consumer, Message, Producer"))
        live = line_with("live in ", up)
        run(send, cwd=tmp_path, environment=environment)
        until(lambda: {"shipping now 7", "shipping now 8"} <= handled(tmp_path))
        line_with("shipping now 8", up)
        lanes_toml = tmp_path / "shop" / "lanes.toml"
        lanes_toml.write_text(f"{lanes_toml.read_text()}\n# once more\n")
        deployed = line_with("deployed ", up)
        with capsys.disabled():
            sys.stdout.write(f"\nempty folder to handled message: {took:.0f} s; {live}{deployed}")
    finally:
        up.terminate()
        up.communicate()
    assert up.returncode == 0


def handled(folder):
    """Return the lines that the function has printed."""
    logs = (folder / "shop" / "build" / "local" / "logs").glob("*Consumer*.log")
    return {line.strip() for log in logs for line in log.read_text().splitlines()}
