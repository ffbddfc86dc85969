"""One Spark session and one AWS server for all Spark tests of a process; lanes of its own for each test."""

import contextlib

import pytest


@pytest.fixture(scope="session")
def aws(tmp_path_factory):
    """Start AWS in a process of its own."""
    from local.server import AwsServer

    with AwsServer(log_path=tmp_path_factory.mktemp("aws") / "server.log") as server:
        yield server


class Sessions:
    """One Spark session at a time: two tasks at once, each up to four times."""

    def __init__(self):
        self._session = None

    def give(self):
        """Give the session; a new one if the last test has left it stopped, without its JVM, or at work."""
        if self._session is not None and not _is_free(self._session):
            _kill(self._session)
            self._session = None
        if self._session is None:
            self._session = _open_anew()
        return self._session

    def end(self):
        """End the session."""
        if self._session is not None:
            self._session.stop()


def _kill(session):
    """End a JVM that may not answer, and let pyspark forget it."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    gateway.proc.kill()
    gateway.proc.communicate()
    with contextlib.suppress(Exception):
        session.stop()
    _forget()


def _forget():
    """End the JVM of a session, if it came up, and let pyspark start another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
        with contextlib.suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _open_anew():
    """Open a session, once more if that fails: on a busy machine a JVM may not come up in time."""
    for is_last in (False, True):
        try:
            return _open()
        except BaseException as error:
            # Half of a session, also where a test's time is over, would fail all later tests.
            _forget()
            if is_last or not isinstance(error, Exception):
                raise
    raise AssertionError


def _open():
    from spark_jobs import LanesDataSource
    from spark_jobs.session import open_session

    session = open_session("tests", master="local[2,4]")
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(LanesDataSource)
    return session


def _is_free(session):
    from py4j.protocol import Py4JError

    try:
        context = session.sparkContext
        return not context._jsc.sc().isStopped() and not context.statusTracker().getActiveJobsIds()
    except (Py4JError, OSError, AttributeError):
        return False


@pytest.fixture(scope="session")
def spark_sessions():
    """Keep one session for all tests of a process."""
    from pyspark import util

    connect = util.local_connect_and_auth

    def connect_until_read(*arguments):
        """Connect, and close the socket with the file that is read: Spark leaves it to the garbage collector."""
        file, connection = connect(*arguments)
        connection.close()
        return file, connection

    util.local_connect_and_auth = connect_until_read
    sessions = Sessions()
    yield sessions
    sessions.end()
    util.local_connect_and_auth = connect


@pytest.fixture
def spark(spark_sessions):
    """Give the session, a new one after a test that ran out of time in a call."""
    return spark_sessions.give()


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
