"""
Spark sessions for jobs: the one of `spark-submit`, or a local one.

A local session listens on the loopback address only, has no web page but a line of progress, and finds this package and
the library in the folders that they are imported from.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lanes
from lanes.config.spark_submit import ARROW_BATCH_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, MutableMapping

    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
# spark-submit sets it for the program that it starts.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
STOPPING = (signal.SIGTERM, signal.SIGINT)
CANCEL_SECONDS = 0.2


@contextmanager
def job_session(name: str, options: argparse.Namespace) -> Iterator[SparkSession]:
    """
    Open the session of a job and stop it at the end; SIGTERM and SIGINT cancel the job first.

    Args:
        name: Name of the application.
        options: The arguments of the job.
    """
    spark = open_session(name, master=options.master)
    stopped: list[int] = []
    ended = threading.Event()

    def cancel() -> None:
        # Again and again, since the job may be about to start.
        while not ended.wait(CANCEL_SECONDS):
            spark.sparkContext.cancelAllJobs()

    def stop(number: int, _frame: object) -> None:
        # In a thread, since the interrupted one may be in a call to the JVM, which no other call may interrupt.
        if not stopped:
            stopped.append(number)
            threading.Thread(target=cancel, name="cancel", daemon=True).start()

    before = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield spark
    except Exception:
        if not stopped:
            raise
    finally:
        ended.set()
        spark.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        raise SystemExit(128 + stopped[0])


def open_session(name: str, *, master: str = "local[2]") -> SparkSession:
    """
    Open the session of a job, or give the open one.

    With spark-submit, its settings apply, also its master. Otherwise the job runs on this machine, with the jars and
    settings of the variable PYSPARK_SUBMIT_ARGS.

    Args:
        name: Name of the application.
        master: Master without spark-submit; `local[2,4]` runs two tasks at once and each up to four times.
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
    Set the environment variables that Spark reads at its start.

    Args:
        environ: The environment to change.
        prefix: The virtual environment; if it contains a Java, Spark uses that one.
    """
    java = prefix / "java"
    if (java / "bin" / "java").exists():
        environ["JAVA_HOME"] = str(java)
    environ["SPARK_LOCAL_IP"] = LOOPBACK
    # Workers would use the python3 of PATH, which lacks our packages.
    environ["PYSPARK_PYTHON"] = sys.executable
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def local_settings() -> Mapping[str, str]:
    """Give the settings of a local session."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxBytesPerBatch": ARROW_BATCH_BYTES,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(module_folders()),
    }


def module_folders() -> list[str]:
    """Give the folders of the library and of this package, for the workers."""
    folders = {str(Path(file).resolve().parent.parent) for file in (lanes.__file__, __file__) if file}
    return sorted(folders)
