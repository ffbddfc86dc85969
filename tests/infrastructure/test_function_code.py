"""The consumer's asset: what's in it, and when it changes."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from cdk import LaneQueues, Ledger, PriorityConsumer, consumer_code
from cdk.function import packages
from cdk.function.code import bundle
from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, lanes_config, resources

LIMIT_BYTES = 20_000_000


@pytest.fixture(scope="module")
def asset(tmp_path_factory):
    """Give the folder that becomes the sample application's asset."""
    target = tmp_path_factory.mktemp("asset")
    bundle(FUNCTION_FOLDER, target)
    return target


@pytest.fixture
def folder(tmp_path):
    """Give a user's function folder."""
    source = tmp_path / "function"
    source.mkdir()
    (source / "handler.py").write_text("def lambda_handler(event, context): return event\n")
    return source


@pytest.fixture
def local_index(tmp_path, monkeypatch):
    """Let pip find one pure package on this machine, and nothing elsewhere."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "pantry-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pantry.py", "SHELVES = 3\n")
        wheel.writestr("pantry-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pantry\nVersion: 1.0\n")
        wheel.writestr("pantry-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("pantry-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def asset_key(folder, outdir):
    """Synthesise a foreign stack that bundles the folder and give the key of its asset."""
    stack = Stack(App(outdir=str(outdir)), "Stack")
    PriorityConsumer(
        stack,
        "Consumer",
        queues=LaneQueues(stack, "Lanes", config=lanes_config(1)),
        ledger=Ledger(stack, "Ledger"),
        code=consumer_code(folder),
    )
    (function,) = resources(Template.from_stack(stack), "AWS::Lambda::Function").values()
    return function["Code"]["S3Key"]


def test_the_asset_is_small(asset):
    """Lambda loads it at every cold start."""
    assert sum(file.stat().st_size for file in asset.rglob("*") if file.is_file()) < LIMIT_BYTES


def test_the_asset_holds_handler_library_and_telemetry_and_not_what_lambda_brings(asset):
    """boto3 is the runtime's, and no bytecode, tests or notes of the installer travel along."""
    names = {path.name for path in asset.iterdir()}

    assert names >= {"handler.py", "lanes", "aws_lambda_powertools"}
    assert not names & {"boto3", "botocore", "bin", "tests"}
    assert not {"probe", "testing", "ui"} & {path.name for path in (asset / "lanes").iterdir()}
    assert not [
        path for path in asset.rglob("*") if path.suffix == ".pyc" or path.name in {"RECORD", "tests"}
    ]


def test_the_handler_is_imported_from_the_asset_alone(asset):
    """Without this environment's packages, as Lambda does it, and without any AWS setting."""
    code = "import handler, lanes, sys; print(handler.__file__, lanes.__file__, callable(handler.lambda_handler))"

    answer = subprocess.run(
        [sys.executable, "-S", "-B", "-c", code],
        cwd=asset,
        env={"PYTHONPATH": str(asset)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.split() == [str(asset / "handler.py"), str(asset / "lanes" / "__init__.py"), "True"]


def test_what_the_functions_import_at_their_first_event_is_in_the_asset(asset):
    """The runtime brings boto3 alone, so every module of the library must be there."""
    modules = "lanes.aws.runtime, lanes.producer.intake, lanes.outbox.dynamodb.relay_function"

    answer = subprocess.run(
        [sys.executable, "-B", "-c", f"import {modules}, lanes; print(lanes.__file__)"],
        cwd=asset,
        env={"PYTHONPATH": str(asset)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.stderr, answer.stdout.strip()) == ("", str(asset / "lanes" / "__init__.py"))


def test_a_copied_tree_makes_the_same_asset(folder, tmp_path):
    """Neither the folder's place nor the files' times make a new deployment."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    os.utime(copy / "handler.py", (0, 0))
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "handler.cpython-311.pyc").write_bytes(b"bytecode")

    assert asset_key(folder, tmp_path / "one") == asset_key(copy, tmp_path / "two")


def test_a_changed_handler_makes_another_asset(folder, tmp_path):
    """A change of code changes the asset."""
    before = asset_key(folder, tmp_path / "one")
    (folder / "handler.py").write_text("def lambda_handler(event, context): return None\n")

    assert asset_key(folder, tmp_path / "two") != before


def test_requirements_of_the_folder_are_installed(folder, local_index, tmp_path):
    """A requirements.txt beside the handler is all it takes."""
    (folder / "requirements.txt").write_text("pantry==1.0\n")
    target = tmp_path / "asset"
    target.mkdir()

    bundle(folder, target)

    assert (target / "pantry.py").is_file()
    assert not (target / "pantry-1.0.dist-info" / "RECORD").exists()


def test_a_requirement_that_pip_cant_meet_ends_the_bundling(folder, local_index, tmp_path):
    """The error holds pip's own words."""
    (folder / "requirements.txt").write_text("larder==2.0\n")
    target = tmp_path / "asset"
    target.mkdir()

    with pytest.raises(RuntimeError, match=r"(?s)pip could not install.*larder"):
        bundle(folder, target)


def test_a_package_that_isnt_installed_here_is_fetched(folder, local_index, tmp_path, monkeypatch):
    """Another environment, without these versions, bundles the same."""
    monkeypatch.setattr(packages, "LIBRARY_REQUIREMENTS", ("pantry==1.0",))
    target = tmp_path / "asset"
    target.mkdir()

    bundle(folder, target)

    assert (target / "pantry.py").read_text() == "SHELVES = 3\n"


def test_another_version_than_the_pinned_one_is_not_copied(folder, local_index, tmp_path, monkeypatch):
    """The pinned version is deployed, even if this environment has another."""
    monkeypatch.setattr(packages, "LIBRARY_REQUIREMENTS", ("jmespath==0.0.1",))
    target = tmp_path / "asset"
    target.mkdir()

    with pytest.raises(RuntimeError, match=r"jmespath==0\.0\.1"):
        bundle(folder, target)


def test_the_pinned_packages_are_those_of_the_repository():
    """The function gets the versions that the tests use."""
    pinned = set(re.findall(r"^[\w.-]+==[\w.]+", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE))

    assert {*packages.LIBRARY_REQUIREMENTS} <= pinned


def test_a_folder_that_doesnt_exist_is_refused():
    """The text says which folder is meant."""
    with pytest.raises(
        FileNotFoundError, match=r"nowhere doesn't exist; give the folder that holds handler\.py"
    ):
        consumer_code(Path("nowhere"))
