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

    for source in (["--table", str(tmp_path)], ["--sql", f"TABLE parquet.`{tmp_path}`"]):
        do(*source, "--id", "id", "--source", source[0].strip("-"))
        assert data(lanes) == {"1": {"id": "1", "note": None}, "2": {"id": "2", "note": "late"}}


@pytest.mark.parametrize("values", [("007", "7", "08"), ("1.50", "1.5", "2"), ("1E3", "1000", "-0")])
def test_values_in_names_of_folders_are_not_changed(do, lanes, tmp_path, values):
    """Spark takes the folder zip=007 for the number 7."""
    for value in values:
        (tmp_path / f"zip={value}").mkdir()
        parquet.write_table(pa.table({"n": [1]}), tmp_path / f"zip={value}" / "a.parquet")

    assert do("--table", str(tmp_path), "--id", "zip")["sent"] == 3
    assert data(lanes) == {value: {"n": 1, "zip": value} for value in values}


def test_a_query_of_a_path_does_not_change_values_in_names_of_folders(do, lanes, tmp_path):
    """It is refused with the way that keeps them."""
    (tmp_path / "zip=007").mkdir()
    parquet.write_table(pa.table({"n": [1]}), tmp_path / "zip=007" / "a.parquet")

    with pytest.raises(
        ConfigurationError, match="'zip', as zip=007 into 7; give it a name: --format parquet"
    ):
        do("--sql", f"TABLE Parquet.`{tmp_path}`", "--id", "n")

    named = ("--format", "parquet", "--view", f"rows={tmp_path}", "--sql", "SELECT n, zip FROM rows")
    assert do(*named, "--id", "zip")["sent"] == 1
    assert data(lanes) == {"007": {"n": 1, "zip": "007"}}


def test_values_in_names_of_folders_keep_their_type_where_it_has_their_text(do, lanes, tmp_path):
    """Of CSV they are text, as all of it."""
    for value in (2025, 2026):
        (tmp_path / f"year={value}" / "day=2026-01-02").mkdir(parents=True)
        parquet.write_table(pa.table({"n": [1]}), tmp_path / f"year={value}" / "day=2026-01-02" / "a.parquet")
    folder = tmp_path / "t.csv"
    files(folder, **{"year=2025__a": "n\n1\n"})

    do("--table", f"{tmp_path}/year=*/*", "--reader-option", f"basePath={tmp_path}", "--id", "year")
    do("--table", str(folder), "--format", "CSV", "--id", "concat('csv', year)")

    assert data(lanes) == {
        "2025": {"n": 1, "year": 2025, "day": "2026-01-02"},
        "2026": {"n": 1, "year": 2026, "day": "2026-01-02"},
        "csv2025": {"n": "1", "year": "2025"},
    }


@pytest.mark.parametrize(
    "case",
    [
        ("csv", {"a": 'id,note\n1,"x\n2,y"\n'}, [], "quotation mark is not closed in '1,\"x'"),
        (
            "csv",
            {"a": "id,note\n1,x\n", "b": 'id,note\n2,"y\n3,z\n'},
            ["multiLine=true"],
            "b.csv: a quotation mark",
        ),
        ("csv", {"a": "id,note\n1,M\xfcller\n".encode("cp1252")}, [], "not UTF-8.*encoding=ISO-8859-1"),
        ("json", {"a": '{"id":1}{"id":2}\n'}, [], "more than one JSON value"),
        ("json", {"a": '{"id":1} and more\n'}, [], "something behind it"),
        ("json", {"a": '{"id":1}\n{"id":2}\n'}, ["multiLine=true"], "more than one JSON value"),
    ],
    ids=["open mark", "open mark of a file", "letters", "two values", "more", "two values of a file"],
)
def test_a_record_that_spark_reads_in_part_sends_nothing(do, lanes, tmp_path, case):
    """Its rest would be lost, or two names become one; the reader can be told to allow it."""
    kind, texts, more, said = case
    folder = files(tmp_path / f"t.{kind}", **texts)
    options = [word for option in more for word in ("--reader-option", option)]

    with pytest.raises(ConfigurationError, match=said):
        do("--table", folder, "--format", kind, "--id", "id", *options)
    assert lanes.waiting() == 0

    do("--table", folder, "--format", kind, "--id", "id", *options, "--reader-option", "mode=PERMISSIVE")
    assert lanes.waiting() > 0


def test_records_that_spark_reads_whole_are_sent(do, lanes, tmp_path):
    """Closed marks, marks inside, line breaks, a byte order mark, and another encoding that is named."""
    marks = files(tmp_path / "marks.csv", a='\ufeffid,note\r\n1,"a, ""b"""\r\n2,5" pipe\r\n')
    breaks = files(tmp_path / "breaks.csv", a='id,note\n3,"x\ny"\n')
    latin = files(tmp_path / "latin.csv", a="id,note\n4,M\xfcller\n".encode("latin-1"))
    single = files(tmp_path / "single.json", a="\ufeff{'id': '5', 'note': null}\r\n\r\n")

    do("--table", marks, "--format", "csv", "--id", "id")
    do("--table", breaks, "--format", "csv", "--id", "id", "--reader-option", "multiLine=true")
    do("--table", latin, "--format", "csv", "--id", "id", "--reader-option", "encoding=ISO-8859-1")
    do("--table", single, "--format", "json", "--id", "id")

    notes = {name: row["note"] for name, row in data(lanes).items()}
    assert notes == {"1": 'a, "b"', "2": '5" pipe', "3": "x\ny", "4": "M\xfcller", "5": None}


def test_a_query_does_not_read_records_with_other_defaults(do, tmp_path):
    """Without a line of names, and a record that it cannot read is one of nulls."""
    file = tmp_path / "t.csv"
    file.write_text("id\n1\n")

    with pytest.raises(ConfigurationError, match=f"--format csv --view rows={file}"):
        do("--sql", f"TABLE CSV.`{file}`")


def test_a_folder_that_spark_would_pass_over_is_refused(do, lanes, tmp_path):
    """Its rows would be missing; the error names what reads it too, and what leaves it out."""
    folder = files(tmp_path / "t.json", a='{"id":1}', old__b='{"id":2}', _log__c='{"id":3}')
    (tmp_path / "t.json" / "empty").mkdir()
    asked = ["--format", "json", "--id", "id"]

    with pytest.raises(ConfigurationError, match="the folder 'old', of which Spark would read nothing"):
        do("--table", folder, *asked)
    do("--table", folder, *asked, "--reader-option", "recursiveFileLookup=true", "--source", "all")
    assert data(lanes).keys() == {"1", "2"}
    do("--table", f"{folder}/*.*", *asked)
    assert data(lanes).keys() == {"1"}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("cut.parquet", b"PAR1 and no more", "is not a Parquet file"),
        ("bad.csv.gz", b"\x1f\x8b\x08 and no more", "FAILED_READ_FILE"),
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
        ["--id", "concat('n-', monotonically_increasing_id())"],
        ["--select", "*, rand() AS lot"],
        ["--group-by", "CAST(rand(7) * 9 AS INT)"],
    ],
)
def test_an_id_that_is_another_at_each_read_is_refused(do, lanes, tmp_path, more):
    """A retried task would send its rows again; a random value beside an id is sent."""
    folder = files(tmp_path / "t.json", a='{"n":1}')
    asked = ["--table", folder, "--format", "json"]

    with pytest.raises(ConfigurationError, match="other values at each read"):
        do(*asked, *more)
    assert lanes.waiting() == 0

    do(*asked, *more, "--id", "n")
    assert data(lanes).keys() == {"1"}
