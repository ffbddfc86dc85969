"""How Spark runs a bulk job on EMR Serverless; the same for those who submit and for schedules."""

from __future__ import annotations

PACKAGES = "packages"
ARROW_BATCH_BYTES = "8388608"


def spark_submit_parameters(*, packages: str, executors: int) -> str:
    """
    Write the parameters of spark-submit.

    Args:
        packages: address of the archive with the job's packages, which both sides unpack and find.
        executors: the most executors, of two cores and 4 GB each, as the driver.
    """
    settings = {
        "spark.archives": f"{packages}#{PACKAGES}",
        "spark.emr-serverless.driverEnv.PYTHONPATH": f"./{PACKAGES}",
        "spark.executorEnv.PYTHONPATH": f"./{PACKAGES}",
        "spark.executor.cores": "2",
        "spark.executor.memory": "4g",
        "spark.driver.cores": "2",
        "spark.driver.memory": "4g",
        # Spark's own 64 MB are held several times over by a worker whose rows are large.
        "spark.sql.execution.arrow.maxBytesPerBatch": ARROW_BATCH_BYTES,
        # Said aloud, since the share of each task in a rate follows from it.
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": str(executors),
    }
    return " ".join(f"--conf {name}={value}" for name, value in settings.items())
