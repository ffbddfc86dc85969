"""The consumer's asset: what's in it, and when it changes."""

import functools
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from cdk import LaneQueues, Ledger, PriorityConsumer, consumer_code
from cdk.function import code, packages
from cdk.function.code import bundle, bundle_relay
from tests.support.infrastructure import ROOT, lanes_config, resources

LIMIT_BYTES = 20_000_000
MOST_MODULES = {"consumer": 80, "outbox_relay": 104}


@pytest.fixture(scope="module")
def asset_of(tmp_path_factory):
    """Bundle a function of this repository, once for all tests; give the folder of its asset."""

    @functools.cache
    def made(function):
        target = tmp_path_factory.mktemp(function)
        if function == "outbox_relay":
            bundle_relay(target)
        else:
            bundle(ROOT / "lambdas" / function, target)
        return target

    return made


@pytest.fixture
def asset(asset_of):
    """Give the folder that becomes the sample application's asset."""
    return asset_of("consumer")


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
    assert not {"testing", "ui"} & {path.name for path in (asset / "lanes").iterdir()}
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


FUNCTIONS = {
    "consumer": "lanes.aws.runtime, aws_lambda_powertools.utilities.data_classes.sqs_event",
    "outbox_relay": "lanes.outbox.dynamodb.relay_function, lanes.outbox.dynamodb.store",
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_function_imports_at_its_first_event_is_in_its_asset(function, asset_of):
    """The runtime brings boto3 alone, so every module of the library must be there, and no other is."""
    made = asset_of(function)

    answer = subprocess.run(
        [sys.executable, "-B", "-c", f"import {FUNCTIONS[function]}, lanes; print(lanes.__file__)"],
        cwd=made,
        env={"PYTHONPATH": str(made)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.stderr, answer.stdout.strip()) == ("", str(made / "lanes" / "__init__.py"))
    files = [str(path.relative_to(made)) for path in (made / "lanes").rglob("*.py")]
    assert len(files) <= MOST_MODULES[function], files
    assert not [file for file in files if file.split("/")[1] in {"cli", "operate", "testing", "ui", "work"}]


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("from lanes import Producer", "producer/producer.py"),
        ("import lanes", "producer/producer.py"),
        ("import lanes.outbox", "outbox/outbox.py"),
        ("from lanes.outbox import SqlOutbox", "outbox/sql/outbox.py"),
        ("from lanes.outbox import DynamoOutbox", "outbox/dynamodb/outbox.py"),
        ("def late():\n    from lanes.outbox.sql import store", "outbox/sql/store.py"),
        (
            "import importlib; importlib.import_module('lanes.operate.redrive')",
            "operate/redrive.py",
        ),
        ("x = 1", "consumer/__init__.py"),
    ],
)
def test_the_asset_has_what_its_code_imports(folder, statement, module):
    """In whatever way; code that names nothing of the library gets its public names."""
    (folder / "helper.py").write_text(statement + "\n")

    names = {str(place) for place in code.modules_for(sorted(folder.glob("*.py")))}

    assert {"lanes/__init__.py", f"lanes/{module}"} <= names


def test_links_are_followed_and_modes_do_not_depend_on_this_machine(folder, tmp_path):
    """
    A package of a monorepo is often a linked folder; tests of a package may be its data.

    Lambda reads files as another user, and runs executable ones.
    """
    shared = tmp_path / "shared" / "pricing"
    (shared / "tests").mkdir(parents=True)
    (shared / "__init__.py").write_text("RATE = 3\n")
    (shared / "tests" / "rates.json").write_text("{}")
    (shared / "again").symlink_to(shared)
    (folder / "pricing").symlink_to(shared)
    (folder / "settings.json").symlink_to(shared / "tests" / "rates.json")
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o700)
    (folder / "handler.py").chmod(0o600)
    target = tmp_path / "asset"
    before = os.umask(0o077)
    try:
        target.mkdir()
        bundle(folder, target)
    finally:
        os.umask(before)

    assert (target / "pricing" / "__init__.py").read_text() == "RATE = 3\n"
    assert (target / "pricing" / "tests" / "rates.json").is_file()
    assert not (target / "settings.json").is_symlink()
    assert not (target / "pricing" / "again").exists()
    modes = {path.relative_to(target): stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*")}
    assert modes[Path("tool")] == 0o755
    assert modes[Path("handler.py")] == modes[Path("lanes/__init__.py")] == 0o644
    assert set(modes.values()) == {0o755, 0o644}


def test_a_link_to_nowhere_is_refused(folder, tmp_path):
    """Left out, it would be missing on Lambda alone."""
    (folder / "pricing").symlink_to(tmp_path / "gone")

    with pytest.raises(FileNotFoundError, match=r"pricing leads to .*gone"):
        bundle(folder, tmp_path)


@pytest.mark.parametrize("name", ["lanes/extra.py", "lanes.py", "jmespath/parser.py"])
def test_a_file_that_would_replace_a_packages_is_refused(folder, tmp_path, name):
    """One of the two would be missing on Lambda, in silence."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")
    target = tmp_path / "asset"
    target.mkdir()

    with pytest.raises(FileExistsError, match=r"would replace .* rename it"):
        bundle(folder, target)


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


def make_wheel(folder, name, version, *, requires=(), tag="py3-none-any"):
    """Put a wheel with one module into a folder."""
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        info = f"{name}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        wheel.writestr(
            f"{info}/METADATA", "\n".join([*lines, *(f"Requires-Dist: {one}" for one in requires), ""])
        )
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def test_your_pin_of_a_package_of_the_library_is_installed_once(folder, local_index, tmp_path):
    """Not overruled in silence, and without a second folder of metadata."""
    make_wheel(local_index, "jmespath", "1.0.9")
    (folder / "requirements.txt").write_text("jmespath==1.0.9\n")
    target = tmp_path / "asset"
    target.mkdir()

    bundle(folder, target)

    assert [path.name for path in target.glob("jmespath*.dist-info")] == ["jmespath-1.0.9.dist-info"]
    assert (target / "jmespath.py").read_text() == "VERSION = '1.0.9'\n"
    assert (target / "aws_lambda_powertools").is_dir()


def test_a_pin_that_the_library_does_not_work_with_is_refused_with_both(folder, local_index, tmp_path):
    """At synth, not at the first invocation."""
    make_wheel(local_index, "jmespath", "0.10.0")
    make_wheel(local_index, "old", "2.0", requires=["jmespath<1"])
    (folder / "requirements.txt").write_text("old==2.0\n")

    with pytest.raises(RuntimeError) as refused:
        bundle(folder, tmp_path)

    assert "old 2.0 depends on jmespath<1" in str(refused.value)
    assert "(constraint) jmespath<2,>=1.0.1" in str(refused.value)


def test_requirements_of_the_folder_are_installed(folder, local_index, tmp_path, monkeypatch):
    """
    A requirements.txt beside the handler is all it takes; no setting of pip puts packages elsewhere.

    Paths count from its folder, as pip takes them there, while synthesis runs in another one; and the wheels for each
    glibc of the runtime are found.
    """
    for name, value in {"PIP_USER": "1", "PIP_TARGET": "elsewhere", "PIP_REQUIRE_VIRTUALENV": "1"}.items():
        monkeypatch.setenv(name, value)
    wheels = folder / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "cellar", "1.0")
    # The runtime has glibc 2.34, and numpy's wheels need 2.27 or 2.28.
    for minor in (17, 27, 28, 34):
        make_wheel(local_index, f"needs{minor}", "1.0", tag=f"cp314-cp314-manylinux_2_{minor}_aarch64")
    lines = [
        "pantry==1.0",
        "./wheels/cellar-1.0-py3-none-any.whl",
        "needs17",
        "needs27",
        "needs28",
        "needs34",
    ]
    (folder / "requirements.txt").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "asset"
    target.mkdir()

    bundle(folder, target)

    assert (target / "pantry.py").is_file()
    assert not (target / "pantry-1.0.dist-info" / "RECORD").exists()
    assert (target / "cellar.py").is_file()
    assert len(list(target.glob("needs*.py"))) == 4


def hashed(monkeypatch, requirement, wheel):
    """Pin a wheel of a test."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(packages.HASHES, requirement, digest)


@pytest.mark.deep
def test_a_handler_that_names_its_type_brings_its_reader(folder, local_index, tmp_path, monkeypatch):
    """For the function's platform; only the first synthesis of a user needs an index, and a requirement goes first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (folder / "plain.py").write_text("def place(message: Message[Any]): ...\n")
    targets = [tmp_path / name for name in ("plain", "refused", "other", "homeless", "typed", "again", "own")]
    for target in targets:
        target.mkdir()
    plain, refused, other, homeless, typed, again, own = targets

    bundle(folder, plain)
    (folder / "typed.py").write_text("def place(message: Message[Order]): ...\n")
    with pytest.raises(RuntimeError, match=r"could not be installed: msgspec=="):
        bundle(folder, refused)
    name, _, version = packages.READER.partition("==")
    wheel = make_wheel(local_index, name, version, tag="cp314-cp314-manylinux_2_17_aarch64")
    # Somebody else's file under its name and version.
    with pytest.raises(RuntimeError, match="HASHES"):
        bundle(folder, other)
    hashed(monkeypatch, packages.READER, wheel)
    # In many a container the home folder can't be written.
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "plain.py"))
    bundle(folder, homeless)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle(folder, typed)
    for wheel in local_index.glob("msgspec*"):
        wheel.unlink()
    bundle(folder, again)
    make_wheel(local_index, name, "0.21", tag="cp314-cp314-manylinux_2_17_aarch64")
    (folder / "requirements.txt").write_text("msgspec==0.21\n")
    bundle(folder, own)

    assert [(target / "msgspec.py").exists() for target in targets] == [False] * 3 + [True] * 4
    assert not (again / f"msgspec-{version}.dist-info" / "RECORD").exists()
    assert (own / "msgspec-0.21.dist-info").is_dir()


def test_a_wheel_of_this_machine_is_refused(folder, local_index, tmp_path):
    """Pip builds a package in a folder for the machine where it runs."""
    target = tmp_path / "asset"
    target.mkdir()
    make_wheel(tmp_path, "native", "1.0", tag="cp311-cp311-linux_x86_64")
    zipfile.ZipFile(tmp_path / "native-1.0-cp311-cp311-linux_x86_64.whl").extractall(target)

    with pytest.raises(RuntimeError, match=r"native-1\.0 is built for cp311-cp311-linux_x86_64"):
        bundle(folder, target)


def test_hashes_of_a_lock_are_checked(folder, local_index, tmp_path):
    """A lock with hashes names every file that may be installed."""
    wheel = local_index / "pantry-1.0-py3-none-any.whl"
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "requirements.txt").write_text(f"pantry==1.0 --hash=sha256:{right}\n")
    (tmp_path / "asset").mkdir()
    bundle(folder, tmp_path / "asset")
    (folder / "requirements.txt").write_text(f"pantry==1.0 --hash=sha256:{'0' * 64}\n")

    with pytest.raises(RuntimeError, match="HASHES"):
        bundle(folder, tmp_path)


def test_bytecode_is_for_the_functions_python_or_said_to_be_missing(folder, tmp_path, monkeypatch, capsys):
    """Lambda can't write any: compiling is a third of a cold start."""
    target = tmp_path / "asset"
    target.mkdir()
    monkeypatch.setattr(code, "PYTHON", "9.9")
    monkeypatch.setattr(code.shutil, "which", lambda _name: None)
    bundle(folder, target)
    assert not list(target.rglob("*.pyc"))
    assert "has no bytecode" in capsys.readouterr().err

    monkeypatch.setattr(code, "PYTHON", f"{sys.version_info.major}.{sys.version_info.minor}")
    other = tmp_path / "other"
    other.mkdir()
    bundle(folder, other)

    (compiled,) = (other / "__pycache__").glob("handler.*.pyc")
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01, "hash-based and unchecked (PEP 552)"
    assert b"/var/task/handler.py" in compiled.read_bytes()


def test_a_requirement_that_pip_cant_meet_ends_the_bundling(folder, local_index, tmp_path):
    """The error holds pip's own words."""
    (folder / "requirements.txt").write_text("larder==2.0\n")
    target = tmp_path / "asset"
    target.mkdir()

    with pytest.raises(RuntimeError, match=r"(?s)could not be installed.*larder"):
        bundle(folder, target)


def test_a_package_that_isnt_installed_here_is_fetched(folder, local_index, tmp_path, monkeypatch):
    """Another environment, without these versions, bundles the same."""
    monkeypatch.setattr(packages, "LIBRARY_REQUIREMENTS", ("pantry==1.0",))
    hashed(monkeypatch, "pantry==1.0", local_index / "pantry-1.0-py3-none-any.whl")
    target = tmp_path / "asset"
    target.mkdir()

    bundle(folder, target)

    assert (target / "pantry.py").read_text() == "SHELVES = 3\n"


def test_another_version_than_the_pinned_one_is_not_copied(folder, local_index, tmp_path, monkeypatch):
    """The pinned version is deployed, even if this environment has another."""
    monkeypatch.setattr(packages, "LIBRARY_REQUIREMENTS", ("jmespath==0.0.1",))
    monkeypatch.setitem(packages.HASHES, "jmespath==0.0.1", "0" * 64)
    target = tmp_path / "asset"
    target.mkdir()

    with pytest.raises(RuntimeError, match=r"jmespath==0\.0\.1"):
        bundle(folder, target)


def test_the_pinned_packages_are_those_of_the_repository():
    """The function gets the versions that the tests use."""
    text = (ROOT / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+==[\w.]+)((?: \\\n +--hash=sha256:\w+)+)", text, flags=re.MULTILINE))

    assert packages.HASHES.keys() == {*packages.LIBRARY_REQUIREMENTS, packages.READER}
    assert all(digest in pinned[name] for name, digest in packages.HASHES.items())


def test_a_module_with_a_syntax_error_is_refused_with_its_line(folder, monkeypatch):
    """Before the deploy, which would take messages to it; also if only another Python can judge it."""
    (folder / "orders.py").write_text("def ship(order)\n    pass\n")
    (folder / "{{name}}.py").write_text("a template\n")

    with pytest.raises(RuntimeError, match=r"can't import .*/orders\.py, line 1: SyntaxError: expected ':'"):
        consumer_code(folder)

    monkeypatch.setattr(code, "PYTHON", "3.99")
    monkeypatch.setattr(code, "RUNTIME_COMMAND", "no-such-python")
    with pytest.raises(RuntimeError, match=r"if Python 3\.99 allows it, put no-such-python on the path"):
        consumer_code(folder)
    (folder / "orders.py").unlink()
    assert consumer_code(folder)


def test_a_folder_that_doesnt_exist_is_refused():
    """The text says which folder is meant."""
    with pytest.raises(
        FileNotFoundError, match=r"nowhere doesn't exist; give the folder that holds handler\.py"
    ):
        consumer_code(Path("nowhere"))
