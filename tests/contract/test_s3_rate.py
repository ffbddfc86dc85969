"""
S3, the rate.

A rate limit for the whole job (`maxSendRate`), shared by its partitions.
"""

import threading
import time

from spark_jobs import write_partitions


def numbered(spark, count, *, partitions=2):
    """Make a table with ids 0, 1, 2 and so on."""
    return spark.range(count, numPartitions=partitions).selectExpr("struct(id AS n) AS data", "id")


def test_the_rate_holds_for_all_tasks_together(spark, lanes):
    """Two tasks at once send no faster than the rate of the job."""
    started = time.monotonic()

    lanes.write(spark.range(40, numPartitions=4).selectExpr("struct(id AS n) AS data"), maxSendRate="20")

    assert time.monotonic() - started >= 2.0
    assert lanes.waiting() == 40


def test_the_form_for_older_sparks_keeps_to_the_rate(spark, lanes):
    """The share of each task is found on the driver, since tasks do not see all settings."""
    started = time.monotonic()

    write_partitions(numbered(spark, 40, partitions=4), lanes.options(maxSendRate="20"))

    assert time.monotonic() - started >= 2.0
    assert lanes.waiting() == 40


def test_a_job_holds_back_while_enough_waits(spark, lanes):
    """It pauses at about the limit and continues when the lane is empty."""
    taken, seen = [], []
    ended = threading.Event()

    def consume():
        while not ended.wait(0.2):
            seen.append(lanes.waiting())
            if seen[-1] >= 30:
                taken.extend(lanes.take("MAIN"))

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        lanes.write(numbered(spark, 60), maxBacklog="30")
    finally:
        ended.set()
        consumer.join()

    taken += lanes.take("MAIN")
    assert max(seen) <= 50
    assert len(taken) == 60
