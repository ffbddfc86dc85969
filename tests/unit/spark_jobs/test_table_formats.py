"""Tables of Delta, Iceberg and Hudi are not read as folders of files."""

import pytest

from lanes.errors import ConfigurationError
from spark_jobs.tables import check_formats

FOLDERS = {
    "s3://lake": ["orders", "events", "logs", "plain"],
    "s3://lake/orders": ["_delta_log", "part-0.parquet", "year=2026"],
    "s3://lake/orders/year=2026": ["part-1.parquet"],
    "s3://lake/events": ["data", "metadata"],
    "s3://lake/events/metadata": ["v1.metadata.json", "snap-1.avro"],
    "s3://lake/logs": [".hoodie", "2026"],
    "s3://lake/plain": ["metadata", "part-0.parquet"],
    "s3://lake/plain/metadata": ["authors.json"],
    "/data/orders": ["_delta_log"],
    "orders": ["_delta_log"],
}


def check(path, named="parquet"):
    """Check a path in this lake."""
    check_formats([(named, path)], lambda folder: FOLDERS.get(folder, []))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("s3://lake/orders", "delta"),
        ("s3://lake/orders/", "delta"),
        ("s3://lake/orders/year=2026", "delta"),
        ("s3://lake/orders/year=*/part-*.parquet", "delta"),
        ("s3://lake/orders/part-0.parquet", "delta"),
        ("s3://lake/events", "iceberg"),
        ("s3://lake/events/data", "iceberg"),
        ("s3://lake/logs/2026", "hudi"),
        ("/data/orders", "delta"),
        ("orders", "delta"),
    ],
)
@pytest.mark.parametrize("named", ["parquet", "orc", "Parquet"])
def test_a_table_is_refused_unless_its_format_is_named(path, found, named):
    """Also a part of it, or a pattern in it; the error has the format to name."""
    with pytest.raises(ConfigurationError, match=f"Name its format: --format {found}"):
        check(path, named)
    check(path, found)


@pytest.mark.parametrize("path", ["s3://lake/plain", "s3://lake", "s3://lake/missing/x", "file.csv", "/"])
def test_other_folders_are_read(path):
    """A folder called metadata is not Iceberg's without its log."""
    check(path)
