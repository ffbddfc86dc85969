"""Sessions on this machine are closed to the network and find their own Java, Python and modules."""

import sys
from pathlib import Path

from spark_jobs.session import local_settings, prepare_environment


def test_spark_stays_on_the_loopback_address():
    """Nothing listens on the network."""
    settings = local_settings()

    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


def test_workers_find_the_modules():
    """The folder of the library and of the jobs is on the workers' path."""
    root = Path(__file__).resolve().parents[3]

    assert str(root) in local_settings()["spark.executorEnv.PYTHONPATH"].split(":")


def test_the_java_of_the_virtual_environment_goes_first(tmp_path):
    """The Java home of the virtual environment is used, even if another Java is installed."""
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    environ = {"JAVA_HOME": "/elsewhere"}

    prepare_environment(environ, prefix=tmp_path)

    assert environ["JAVA_HOME"] == str(tmp_path / "java")
    assert environ["PYSPARK_PYTHON"] == sys.executable


def test_another_environments_java_stays(tmp_path):
    """Without a Java of its own, the environment keeps the user's choice."""
    environ = {"JAVA_HOME": "/elsewhere"}

    prepare_environment(environ, prefix=tmp_path)

    assert environ["JAVA_HOME"] == "/elsewhere"
