"""Arguments and choices of the backfill job that need no Spark."""

import pytest

from spark_jobs import submit
from spark_jobs.loyalty_backfill import Faults, parser


def test_faults_are_the_same_for_the_same_seed():
    """A demo can compute the poison messages itself."""
    first, again = (Faults.draw(customers=100, poison=3, flaky=2, seed=7) for _ in range(2))

    assert first == again
    assert (len(first.poison), len(first.flaky)) == (3, 2)
    assert not set(first.poison) & set(first.flaky)


def test_more_faults_than_customers_are_refused():
    """The error says how many there can be."""
    with pytest.raises(ValueError, match="need more than 4 customers"):
        Faults.draw(customers=4, poison=3, flaky=2, seed=7)


@pytest.mark.parametrize("number", ["0", "-5", "10000001", "many"])
def test_a_wrong_number_of_customers_is_refused(number, capsys):
    """The job ends before Spark starts."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--table", "t", "--customers", number])

    assert "--customers" in capsys.readouterr().err


def test_an_unknown_job_is_named_with_the_known_ones():
    """spark-submit gets a usage line, not a traceback."""
    with pytest.raises(SystemExit, match="jobs: enqueue, loyalty_backfill"):
        submit.main(["submit.py", "nothing"])
