"""The parameters of spark-submit for a bulk job on EMR Serverless, for submitted and for scheduled runs."""

from __future__ import annotations

PACKAGES = "packages"
STACK_TAG, RUN_TAG = "lanes:stack", "lanes:run"
"""Tags of the resources and runs of bulk jobs, for cost allocation."""
ARROW_BATCH_BYTES = "8388608"
# AWS: a run that the API starts has no catalog unless it names this class (EMR-Serverless-UserGuide/metastore-config).
CATALOG = {
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.client.factory.class": (
        "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
    ),
}


def spark_submit_parameters(*, packages: str, executors: int, catalog: bool, more: str = "") -> str:
    """
    Return the parameters of spark-submit.

    Args:
        packages: URL of the archive with the job's packages; driver and executors unpack it.
        executors: maximum number of executors; each has two cores and 4 GB, as the driver has.
        catalog: whether names of tables are looked up in the AWS Glue Data Catalog.
        more: further parameters, which override settings of the same name.
    """
    settings = {
        "spark.archives": f"{packages}#{PACKAGES}",
        "spark.emr-serverless.driverEnv.PYTHONPATH": f"./{PACKAGES}",
        "spark.executorEnv.PYTHONPATH": f"./{PACKAGES}",
        # AWS: cores and memory count only here, not in the program (EMR Serverless user guide, Spark jobs). The
        # default is 4 vCPU and 14 GB for each worker.
        "spark.executor.cores": "2",
        "spark.executor.memory": "4g",
        "spark.driver.cores": "2",
        "spark.driver.memory": "4g",
        # A Python worker holds several batches of large rows at once: Spark's default of 64 MB is too much.
        "spark.sql.execution.arrow.maxBytesPerBatch": ARROW_BATCH_BYTES,
        # Explicit, since the share of each task in a rate limit follows from it.
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": str(executors),
        **(CATALOG if catalog else {}),
    }
    ours = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    return f"{ours} {more}".strip()
