"""
Spark sessions for jobs: as `spark-submit` set them up, or one on this machine.

On this machine Spark listens on the loopback address only, shows no web page, and finds this package and the
library in the folders where they are imported from.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lanes
from lanes.bulk_settings import ARROW_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
# Set by spark-submit for the program that it starts.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


def open_session(name: str, *, master: str = "local[2]") -> SparkSession:
    """
    Open the session of a job, or give the one that is open.

    Started by spark-submit, its settings stand, the master among them. Started as a plain program, the job
    runs on this machine.

    Args:
        name: of the application.
        master: of a plain program; `local[2,4]` runs two tasks at once and tries each up to four times.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if SUBMITTED not in os.environ:
        prepare_environment(os.environ)
        builder = builder.master(master)
        for key, value in local_settings().items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def prepare_environment(environ: MutableMapping[str, str], *, prefix: Path = Path(sys.prefix)) -> None:
    """
    Set what Spark reads before it starts.

    Args:
        environ: where to set it.
        prefix: the virtual environment; its own Java is used where it has one, so that runs are the same
            everywhere.
    """
    java = prefix / "java"
    if (java / "bin" / "java").exists():
        environ["JAVA_HOME"] = str(java)
    environ["SPARK_LOCAL_IP"] = LOOPBACK
    # Workers would take the python3 of PATH, which lacks the packages of this one.
    environ["PYSPARK_PYTHON"] = sys.executable
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def local_settings() -> Mapping[str, str]:
    """Give Spark's settings for a session on this machine."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": ARROW_BATCH_BYTES,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(module_folders()),
    }


def module_folders() -> list[str]:
    """Give the folders from which the library and this package are imported; workers look there too."""
    folders = {str(Path(file).resolve().parent.parent) for file in (lanes.__file__, __file__) if file}
    return sorted(folders)
