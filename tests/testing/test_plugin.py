"""The pytest plugin, in runs of pytest of its own."""

import os
import subprocess
import sys
import tomllib

import pytest

from lanes import LanesConfig
from lanes.errors import ConfigurationError
from lanes.testing.on_moto import lanes_on_moto
from tests.docs.pages import ROOT

pytest_plugins = ["pytester"]

OPTIONS = ("-p", "lanes.testing.plugin", "-p", "no:cacheprovider")
HANDLERS = """
from lanes import Consumer, Priority

consumer = Consumer()

@consumer.handler("order.placed")
def place(message):
    pass
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch):
    """The library is found, and other plugins are left out, which take seconds."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester, test, *arguments, **files):
    """Run pytest on one test module beside a module with handlers."""
    pytester.makepyfile(handlers=HANDLERS, test_it=test, **files)
    # Where pytest finds the settings of a project, also far above, it takes that folder for the root.
    return pytester.runpytest_inprocess("--rootdir", str(pytester.path), *OPTIONS, *arguments)


def test_lanes_in_memory_handle_what_the_test_sends(pytester):
    """With the default lanes where the project has no lanes.toml."""
    result = run(
        pytester,
        """
        from handlers import consumer

        def test_it(lanes_in_memory, lanes_clock):
            lanes_in_memory.serve(consumer)
            lanes_in_memory.producer.send("order.placed", {"order": 7}, priority=50)
            lanes_in_memory.run_until_idle()
            lanes_in_memory.assert_handled("order.placed", lane="HIGH", order=7)
            assert lanes_in_memory.clock is lanes_clock
            assert lanes_clock.now > lanes_clock.started_at
        """,
    )

    result.assert_outcomes(passed=1)


def test_the_header_names_the_file_with_the_lanes(pytester):
    """Or says that there is none: tests of other lanes than yours would pass as well."""
    run(pytester, "def test_it(): pass").stdout.fnmatch_lines(
        ["lanes: the default ones; * has no lanes.toml"]
    )

    file = pytester.path / "lanes.toml"
    file.write_text("[consumer]\nmax_attempts = 2\n")
    run(pytester, "def test_it(): pass").stdout.fnmatch_lines([f"lanes: {file}"])

    pytester.makeini("[pytest]\nlanes_toml = none.toml\n")
    run(pytester, "def test_it(): pass").stdout.fnmatch_lines(["lanes: *none.toml, which does not exist"])


def test_the_fixtures_have_the_lanes_of_the_projects_file_and_stage(pytester):
    """Those that are deployed are those that are tested; the marker changes them for a test."""
    pytester.makefile(
        ".toml",
        lanes="""
        [consumer]
        max_attempts = 7
        memory_mb = 256

        [[lanes]]
        name = "FAST"
        threshold = 10

        [[lanes]]
        name = "SLOW"

        [stages.big.consumer]
        max_attempts = 9
        """,
    )
    pytester.makeini("[pytest]\nlanes_stage = big\n")
    result = run(
        pytester,
        """
        import pytest

        def settings(lanes):
            assert lanes.config.consumer.memory_mb == 256
            return [lane.name for lane in lanes.config.lanes], lanes.config.consumer.max_attempts

        def test_file(lanes_in_memory):
            assert settings(lanes_in_memory) == (["FAST", "SLOW"], 9)

        @pytest.mark.lanes_config(stage=None)
        def test_no_stage(lanes_in_memory):
            assert settings(lanes_in_memory) == (["FAST", "SLOW"], 7)

        @pytest.mark.lanes_config(consumer={"max_attempts": 2})
        class TestMarked:
            def test_class(self, lanes_in_memory):
                assert settings(lanes_in_memory) == (["FAST", "SLOW"], 2)

            @pytest.mark.lanes_config(lanes=[{"name": "ONE"}])
            def test_both(self, lanes_in_memory):
                assert settings(lanes_in_memory) == (["ONE"], 2)

            @pytest.mark.lanes_config(consumer={"max_attempts": 3})
            def test_nearest(self, lanes_in_memory):
                assert settings(lanes_in_memory) == (["FAST", "SLOW"], 3)
        """,
    )

    result.assert_outcomes(passed=5)


def test_the_marker_may_change_the_engine(pytester):
    """The other engine's defaults are not part of the file."""
    pytester.makefile(".toml", lanes='[consumer]\nengine = "pull"\nfunction_timeout = "60s"\n')
    result = run(
        pytester,
        """
        import pytest
        from handlers import consumer

        def check(lanes, engine):
            assert lanes.config.consumer.engine == engine
            assert lanes.config.consumer.function_timeout.total_seconds() == 60
            lanes.serve(consumer)
            lanes.producer.send("order.placed", {"order": 7})
            lanes.run_until_idle()
            lanes.assert_handled("order.placed", lane="MEDIUM", order=7)

        def test_file(lanes_in_memory):
            check(lanes_in_memory, "pull")

        @pytest.mark.lanes_config(consumer={"engine": "mappings"})
        def test_marker(lanes_in_memory):
            check(lanes_in_memory, "mappings")
        """,
    )

    result.assert_outcomes(passed=2)


def test_another_file_may_hold_the_lanes(pytester):
    """Named in pytest's settings, from its root folder."""
    folder = pytester.mkdir("deploy")
    (folder / "all.toml").write_text('[[lanes]]\nname = "ALL"\n')
    pytester.makeini("[pytest]\nlanes_toml = deploy/all.toml\n")
    result = run(
        pytester,
        """
        def test_it(lanes_config):
            assert [lane.name for lane in lanes_config.lanes] == ["ALL"]
        """,
    )

    result.assert_outcomes(passed=1)


def test_a_wrong_setting_says_what_is_allowed(pytester):
    """The error is that of lanes.toml."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.lanes_config(consumer={"max_attempt": 2})
        def test_it(lanes_in_memory):
            pass
        """,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ConfigurationError*", "*max_attempt*"])


def test_a_stage_that_there_is_not_is_refused_also_without_a_file(pytester):
    """Or a test would run on other lanes than it says."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.lanes_config(stage="nope")
        def test_it(lanes_in_memory):
            pass
        """,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown stage 'nope'*"])


def test_a_failing_assertion_shows_the_line_of_the_test_and_no_inner_code(pytester):
    """What matters is what there was instead."""
    result = run(
        pytester,
        """
        def test_it(lanes_in_memory):
            lanes_in_memory.producer.send("order.placed", {"order": 7})
            lanes_in_memory.assert_sent("order.placed", order=8)
        """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *order is 7, not 8", "test_it.py:3: AssertionError"])
    result.stdout.no_fnmatch_line("*lanes/testing*")


def test_without_moto_the_fixture_says_what_to_install(pytester, monkeypatch):
    """One line, no traceback through imports."""
    monkeypatch.setattr("lanes.testing.plugin.find_spec", lambda _name: None)
    result = run(pytester, "def test_it(lanes_on_moto): pass")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs moto: pip install 'priority-lanes[[]testing[]] @ file:///*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_tests_of_this_repository_run_also_where_pip_has_left_the_packages_entry_point(tmp_path):
    """`pip install /path/to/priority-lanes` leaves its metadata in the checkout: a second name of the plugin."""
    installed = tmp_path / "priority_lanes-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: priority-lanes\nVersion: 0\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nlanes = lanes.testing.plugin\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/docs/test_orders_example.py"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "test_a_payment_is_booked_through_boto3" in done.stdout


def test_the_plugin_alone_imports_nothing_of_the_library(pytester):
    """A project pays for the fixtures that it uses."""
    pytester.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name == "lanes" or name.startswith("lanes.")}
            assert loaded == {"lanes", "lanes.testing", "lanes.testing.plugin"}
            assert not {"boto3", "moto"} & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, "--strict-markers")

    result.assert_outcomes(passed=1)


def test_fixtures_and_marker_are_described(pytester):
    """`pytest --fixtures` and `--markers` are where people look."""
    fixtures = run(pytester, "", "--fixtures")
    fixtures.stdout.fnmatch_lines(["lanes_in_memory*", "lanes_on_moto*"])
    markers = pytester.runpytest_inprocess(*OPTIONS, "--markers")
    markers.stdout.fnmatch_lines(["*lanes_config(stage=None, [*][*]settings)*"])


def test_pytest_finds_the_plugin_where_the_package_is_installed():
    """The entry point leads to the module."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"lanes": "lanes.testing.plugin"}
    assert any(one.startswith("moto[") for one in project["optional-dependencies"]["testing"])


@pytest.mark.parametrize("module", ["lanes.testing", "lanes.testing.in_memory", "lanes.testing.on_moto"])
def test_lanes_testing_needs_neither_pytest_nor_moto(pytester, module):
    """It serves other test runners too."""
    code = f"import sys; sys.modules.update(pytest=None, moto=None); import {module}; {module}"

    assert pytester.runpython_c(code).ret == 0


@pytest.mark.parametrize(
    "variable",
    [
        {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:9"},
        {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:9"},
        {"TEST_SERVER_MODE": "true", "TEST_SERVER_MODE_ENDPOINT": "http://127.0.0.1:9"},
        {"AWS_CONFIG_FILE": "config"},
        {"AWS_CONFIG_FILE": "config", "AWS_PROFILE": "stack"},
    ],
    ids="-".join,
)
def test_lanes_on_moto_reach_no_other_aws(pytester, monkeypatch, variable):
    """No setting of the developer's leads there, in a variable or in a file; those that describe a function stay."""
    (pytester.path / "config").write_text(
        "[default]\nendpoint_url = http://127.0.0.1:9\n"
        "[profile stack]\nservices = running\n[services running]\nsqs =\n  endpoint_url = http://127.0.0.1:9\n"
    )
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")

    result = run(
        pytester,
        """
        import os
        import boto3
        from lanes import Producer

        def test_it(lanes_on_moto):
            Producer.from_env().send("order.placed", {"order": 7})
            for service in ("sqs", "dynamodb", "sns"):
                assert boto3.client(service).meta.endpoint_url.endswith(".amazonaws.com")
            assert os.environ["AWS_LAMBDA_FUNCTION_NAME"] == "orders"
        """,
    )

    result.assert_outcomes(passed=1)


def test_lanes_on_moto_refuse_another_address(monkeypatch):
    """Before anything is made there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")

    with (
        pytest.raises(
            ConfigurationError, match=r"the clients of boto3 call http://127\.0\.0\.1:9 instead of moto"
        ),
        lanes_on_moto(LanesConfig.from_dict({})),
    ):
        pass
