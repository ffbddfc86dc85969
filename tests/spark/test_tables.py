"""What Spark's readers would lose or change without a word is read whole, or refused by name."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

from lanes.errors import ConfigurationError


def files(folder, **texts):
    """Write files; two underscores are a slash."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.{folder.suffix[1:]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(folder)


def data(lanes):
    """Take the messages; return their data by id."""
    return {event["id"]: event["data"] for _, event in lanes.take("MAIN")}


def test_columns_of_all_files_are_sent(do, lanes, tmp_path):
    """Spark takes those of one file; a column that a file lacks is null. A query reads them too."""
    for name, columns in (("a", {"id": ["1"]}), ("b", {"id": ["2"], "note": ["late"]})):
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")

    for source in (["--table", str(tmp_path)], ["--sql", "TABLE t", "--view", f"t={tmp_path}"]):
        do(*source, "--id", "id", "--source", source[0].strip("-"))
        assert data(lanes) == {"1": {"id": "1", "note": None}, "2": {"id": "2", "note": "late"}}


@pytest.mark.parametrize(
    "values",
    [
        ("007", "7", "08"),
        *(pytest.param(one, marks=pytest.mark.deep) for one in (("1.50", "1.5", "2"), ("1E3", "1000", "-0"))),
    ],
)
def test_values_in_names_of_folders_are_not_changed(do, lanes, tmp_path, values):
    """Spark takes the folder zip=007 for the number 7."""
    for value in values:
        (tmp_path / f"zip={value}").mkdir()
        parquet.write_table(pa.table({"n": [1]}), tmp_path / f"zip={value}" / "a.parquet")

    assert do("--table", str(tmp_path), "--id", "zip")["sent"] == 3
    assert data(lanes) == {value: {"n": 1, "zip": value} for value in values}


def test_values_in_names_of_folders_are_text_in_a_query_too(do, lanes, tmp_path):
    """Spark takes 1d for a double; a schema names another type."""
    for value in ("1d", "7d"):
        (tmp_path / f"window={value}").mkdir()
        parquet.write_table(pa.table({"n": [1]}), tmp_path / f"window={value}" / "a.parquet")

    assert do("--sql", "TABLE t", "--view", f"t={tmp_path}", "--id", "window")["sent"] == 2
    assert data(lanes) == {value: {"n": 1, "window": value} for value in ("1d", "7d")}


def test_a_query_does_not_read_records_with_other_defaults(do, tmp_path):
    """Spark reads CSV in place without a line of names, and a record that it cannot read is one of nulls."""
    with pytest.raises(
        ConfigurationError, match=r"give it a name: --view rows=/x/t\.csv, and that in the query"
    ):
        do("--sql", "SELECT * FROM people.a JOIN CSV . `/x/t.csv` USING (id)")


def test_a_folder_that_spark_would_pass_over_is_refused(do, lanes, tmp_path):
    """Its rows would be missing; the error names what reads it too, and what leaves it out."""
    folder = files(tmp_path / "t.csv", a="id\n1\n", old__b="id\n2\n", _log__c="id\n3\n")
    (tmp_path / "t.csv" / "empty").mkdir()
    asked = ["--format", "csv", "--id", "id"]

    with pytest.raises(ConfigurationError, match="the folder 'old', of which Spark would read nothing"):
        do("--table", folder, *asked)
    do("--table", folder, *asked, "--reader-option", "recursiveFileLookup=true", "--source", "all")
    assert data(lanes).keys() == {"1", "2"}
    do("--table", f"{folder}/*.*", *asked)
    assert data(lanes).keys() == {"1"}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        pytest.param("cut.parquet", b"PAR1 and no more", "is not a Parquet file", marks=pytest.mark.deep),
        pytest.param("bad.csv.gz", b"\x1f\x8b\x08 and no more", "FAILED_READ_FILE", marks=pytest.mark.deep),
        ("ids.csv", b"id\nx\n", "CAST_INVALID_INPUT"),
    ],
)
def test_a_file_or_value_that_spark_cannot_read_is_an_error_of_one_line(do, tmp_path, file, content, said):
    """Without Java's trace."""
    path = tmp_path / file
    path.write_bytes(content)
    named = "parquet" if file.endswith("parquet") else "csv"

    with pytest.raises(ConfigurationError, match=said) as caught:
        do("--table", str(path), "--format", named, "--id", "cast(id AS INT)")
    assert "\n" not in caught.value.problems[0]


def test_an_unknown_place_is_an_error_of_one_line(do):
    """Without Java's trace."""
    with pytest.raises(ConfigurationError, match='No FileSystem for scheme "nowhere"') as caught:
        do("--table", "nowhere://bucket/table")
    assert "\n" not in caught.value.problems[0]


def test_a_time_gives_the_same_id_in_each_time_zone(spark, do, lanes, tmp_path):
    """A rerun on a machine in another zone would send each row again."""
    moments = [datetime(2026, 10, 25, hour, 30, 0, micros, UTC) for hour in (0, 1) for micros in (0, 500_000)]
    parquet.write_table(
        pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))}), tmp_path / "t.parquet"
    )
    asked = ["--table", str(tmp_path / "t.parquet"), "--id", "at"]
    asked += ["--run", "spring", "--manifest", str(tmp_path / "runs")]

    assert do(*asked)["sent"] == 4
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        again = do(*asked)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)

    assert (again["sent"], again["skipped"]) == (0, 4)
    assert data(lanes).keys() == {f"2026-10-25 0{hour}:30:00{rest}" for hour in (0, 1) for rest in ("", ".5")}


@pytest.mark.parametrize(
    "more",
    [
        ["--id", "uuid()"],
        *(
            pytest.param(one, marks=pytest.mark.deep)
            for one in (
                ["--id", "concat('n-', monotonically_increasing_id())"],
                ["--select", "*, rand() AS lot"],
                ["--group-by", "CAST(rand(7) * 9 AS INT)"],
            )
        ),
    ],
)
def test_an_id_that_is_another_at_each_read_is_refused(do, lanes, tmp_path, more):
    """A retried task would send its rows again; a random value beside an id is sent."""
    folder = files(tmp_path / "t.csv", a="n\n1\n")
    asked = ["--table", folder, "--format", "csv"]

    with pytest.raises(ConfigurationError, match="other values at each read"):
        do(*asked, *more)
    assert lanes.waiting() == 0

    do(*asked, *more, "--id", "n")
    assert data(lanes).keys() == {"1"}
