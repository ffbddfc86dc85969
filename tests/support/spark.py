"""One Spark session and one AWS server for all Spark tests of a process; lanes of its own for each test."""

import pytest


@pytest.fixture(scope="session")
def aws(tmp_path_factory):
    """Start AWS in a process of its own."""
    from local.server import AwsServer

    with AwsServer(log_path=tmp_path_factory.mktemp("aws") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def spark():
    """Run two tasks at once, each up to four times."""
    from pyspark import util

    from spark_jobs import LanesDataSource
    from spark_jobs.session import open_session

    connect = util.local_connect_and_auth

    def connect_until_read(*arguments):
        """Connect, and close the socket with the file that is read: Spark leaves it to the garbage collector."""
        file, connection = connect(*arguments)
        connection.close()
        return file, connection

    util.local_connect_and_auth = connect_until_read
    session = open_session("tests", master="local[2,4]")
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(LanesDataSource)
    yield session
    session.stop()
    util.local_connect_and_auth = connect


@pytest.fixture
def lanes(aws):
    """Give empty lanes."""
    from tests.support.lanes_server import DeployedLanes

    return DeployedLanes(aws.endpoint_url)


@pytest.fixture
def more_lanes(aws):
    """Give other empty lanes, which have not seen the messages of the first."""
    from tests.support.lanes_server import DeployedLanes

    return DeployedLanes(aws.endpoint_url)
