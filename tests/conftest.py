"""The rules of every run: dummy AWS settings, this machine only, fixed examples, and which tests share a worker."""

from __future__ import annotations

import functools
import gc
import ipaddress
import os
import random
import socket
import sys

import pytest
from botocore.loaders import JSONFileLoader, Loader
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# The same examples in each run, and no example fails because the machine is slow.
settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep",
    settings.get_profile("quick"),
    max_examples=1_000,
    stateful_step_count=100,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("quick")

REGION = "eu-central-1"

# The collector finds nothing while each worker imports 400 files of tests, and takes half of the CPU time of that.
gc.disable()
# Spark's JVMs live for seconds here: without the second compiler a session takes 12 s of CPU time instead of 24 s.
os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_LAUNCHER_OPTS"] = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
# CloudFormation's rules, by which the CDK checks a stack, take each process 4 s to load. One test is enough for them,
# in tests/infrastructure/test_stack.py.
os.environ["CDK_VALIDATION"] = "false"
# Their fixtures last for a whole run and are used in several folders.
pytest_plugins = ["tests.support.spark", "tests.support.stacks"]

# A worker takes whole files, so that fixtures of a module are made once. The files of a unit go to one worker, because
# they share a program that takes seconds to start; all others go to any, since many of them wait. Units come first, in
# this order: the long ones start early.
UNITS = {
    "spark": (
        *(f"tests/contract/test_{promise}" for promise in ("r_spark", "s1", "s2_k", "s2_r", "s3", "s4")),
        "tests/spark/",
    ),
    "browser": ("tests/ui/",),
    "platform": tuple(f"tests/local/test_{name}" for name in ("following", "outbox_from", "platform")),
    "mapped stack": ("tests/acceptance/test_pause",),
    "pull stack": ("tests/acceptance/test_pull",),
    "night stack": ("tests/acceptance/test_at_night",),
    "new app": ("tests/acceptance/test_new_app", "tests/acceptance/test_tutorials"),
    "command": ("tests/acceptance/",),
    "server": tuple(
        f"tests/local/test_{name}"
        for name in ("call", "cloudformation", "common", "log", "permissions", "releases", "up")
    ),
    "templates": ("tests/contract/test_c9", "tests/infrastructure/"),
}
DEEP_TIMEOUT_SECONDS = 900  # against a test that hangs; the longest takes a sixth of it


def pytest_addoption(parser):
    """Set the length of a night."""
    parser.addoption(
        "--minutes", type=float, default=60.0, help="how long the nightly search for lost entries goes on"
    )


def pytest_collection_modifyitems(items):
    """Put shared units first, then files with deep tests: short files at the end let no worker wait for another."""
    places = {unit: place for place, unit in enumerate(UNITS)}
    deep = [item for item in items if item.get_closest_marker("deep") or item.get_closest_marker("nightly")]
    long = {item.path for item in deep}
    items.sort(key=lambda item: (places.get(_unit(item.nodeid), len(places)), item.path not in long))
    for item in deep:
        item.add_marker(pytest.mark.timeout(DEEP_TIMEOUT_SECONDS))


def pytest_collection_finish():
    """Collect garbage from here on, without another look at what the imports made: it stays for the whole run."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers(config):
    """Start more workers than there are cores: many tests wait for processes and for AWS's times."""
    cores = yield
    return cores + (2 if "not deep" in config.option.markexpr else 1)


class UnitScheduling(LoadFileScheduling):
    """Give each worker whole files, or whole units of files."""

    def _split_scope(self, nodeid):
        return _unit(nodeid) or super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config, log):
    """Schedule units in the order of collection, not by their number of tests."""
    config.option.loadscopereorder = False
    return UnitScheduling(config, log)


def _unit(nodeid):
    return next((unit for unit, paths in UNITS.items() if nodeid.startswith(paths)), None)


@pytest.fixture(autouse=True)
def _seeded_chance(request):
    """Let everything that draws from the process's own source of chance draw the same in each run of a test."""
    random.seed(request.node.nodeid)


@pytest.fixture(autouse=True, scope="session")
def _scrubbed_environment():
    """Take every AWS and lanes setting away and put dummies in their place, before any client is made."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "LANES_"))]:
            patch.delenv(name)
        # Otherwise the source of a message would be the name of the program that runs the tests.
        patch.setenv("LANES_SOURCE", "lanes")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_REGION", REGION)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(autouse=True, scope="session")
def _loopback_only():
    """Refuse connections that leave this machine."""
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise RuntimeError(f"a test tried to connect to {address}; tests stay on this machine")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of the tests' own: one for all folders, each of whose tests has its own tables."""
    from tests.support.postgres import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture(autouse=True, scope="session")
def _looked_up_once():
    """
    Keep what botocore and moto find out again and again, and always find alike.

    The descriptions of AWS's services, which botocore reads from its files for each session; a part of its own name
    and the methods of a service, looked through for each call.
    """
    loader, list_services = JSONFileLoader(), Loader.list_available_services
    load_file, listed = functools.cache(loader.load_file), {}

    def list_once(self, type_name):
        key = type_name, *self.search_paths
        if key not in listed:
            listed[key] = list_services(self, type_name)
        return listed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _self, path: load_file(path))
        patch.setattr(Loader, "list_available_services", list_once)
        for module, name in (
            ("botocore.useragent", "sanitize_user_agent_string_component"),
            ("moto.core.responses", "method_names_from_class"),
        ):
            # Tests that use moto have imported it by now; others need not.
            if module in sys.modules:
                found = getattr(sys.modules[module], name)
                patch.setattr(sys.modules[module], name, functools.cache(found))
        yield


def _is_loopback(host):
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
