"""The job for any table, in the session of the tests."""

import pytest

from spark_jobs.enqueue import parser, run


@pytest.fixture
def do(spark, lanes):
    """Run the job in the session of the tests."""
    where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]

    def start(*arguments):
        return run(spark, parser().parse_args([*arguments, "--kind", "customer.remind", *where]))

    return start
