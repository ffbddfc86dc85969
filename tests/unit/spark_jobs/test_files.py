"""Files without Spark: their rows, and what is refused."""

import json
import os
import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from lanes.errors import ConfigurationError
from spark_jobs.file_rows import rows_of
from spark_jobs.files import describe, main, parser, send
from spark_jobs.rows.outgoing import UnreadableRow
from spark_jobs.rows.reader import RowReader
from tests.support.sending import make_deployment


def rows(path, *arguments):
    """Read the rows of a file."""
    return list(rows_of(parser().parse_args([str(path), "--kind", "a.kind", *arguments])))


def test_columns_of_csv_are_text(tmp_path):
    """Leading zeros are part of an id; an empty field is null, as Spark reads it."""
    file = tmp_path / "rows.csv"
    file.write_text('\ufeffid,zip,name\n007,01221,"a, b"\n7,2D,\n', encoding="utf-8")

    assert rows(file, "--id", "id", "--group", "zip") == [
        {"id": "007", "group": "01221", "data": {"id": "007", "zip": "01221", "name": "a, b"}},
        {"id": "7", "group": "2D", "data": {"id": "7", "zip": "2D", "name": None}},
    ]


def test_a_field_of_csv_may_be_long(tmp_path):
    """As long as a message holds it."""
    (tmp_path / "letters.csv").write_text(f"n,text\n0,{'x' * 200_000}\n")

    assert [len(row["data"]["text"]) for row in rows(tmp_path / "letters.csv")] == [200_000]


def test_lines_of_json_go_out_as_they_came(tmp_path):
    """Numbers keep their digits, and a field that a line lacks is null."""
    file = tmp_path / "rows.jsonl"
    lines = ['{"n": 1,  "d": 0.1000000000000000055}', '{"d": 2}', "[1"]
    file.write_text("\n\n".join(lines))

    assert rows(file) == [{"data": line} for line in lines]
    assert rows(file, "--id", "n") == [
        {"data": lines[0], "id": 1},
        {"data": lines[1], "id": None},
        {"data": "[1"},
    ]
    assert [row["data"] for row in rows(file, "--select", "d, n")] == [
        '{"d":0.1000000000000000055,"n":1}',
        '{"d":2,"n":null}',
        "[1",
    ]


def refusal(row):
    """Give why a row cannot be sent."""
    if isinstance(row, UnreadableRow):
        return row.reason
    with pytest.raises(ValueError, match=r".") as caught:
        RowReader(kind="a.kind", priority=0).item(row, 1)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1.0}', "its id is 1.0; a string, a whole number or a date is needed"),
        ('{"a": true}', "its id is True"),
        ('{"a": {"b": [1]}}', "its id is {'b': [1]}"),
        ('{"a": "x", "a": "y"}', "its field 'a' occurs more than once"),
        ('"text"', "it is not a JSON object, so it has no field 'a'"),
        ('{"a": 1', "its data is not a JSON document"),
    ],
)
def test_lines_whose_id_is_not_one_text_are_refused(tmp_path, line, reason):
    """Two numbers with a fraction may be one float, and other writers write it in other ways."""
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n{line}')

    good, bad = rows(tmp_path / "a.jsonl", "--id", "a")

    assert good["id"] == 1
    assert reason in refusal(bad)


ONE_TEXT = [
    [True],
    [1e20],
    [Decimal("1.50")],
    [datetime(2026, 1, 2, tzinfo=UTC)],
    [{"a": 1}],
]


@pytest.mark.parametrize("values", ONE_TEXT)
@pytest.mark.parametrize("option", ["--id", "--group"])
def test_columns_of_parquet_that_spark_would_write_in_another_way_are_no_ids(tmp_path, values, option):
    """A rerun by a job would send the rows again."""
    parquet.write_table(pa.table({"a": values, "on": [date(2026, 1, 2)]}), tmp_path / "a.parquet")

    assert "is needed" in refusal(rows(tmp_path / "a.parquet", option, "a")[0])
    (row,) = rows(tmp_path / "a.parquet", option, "on", "--select", "on")
    assert "2026-01-02" in RowReader(kind="a.kind", priority=0).item(row, 1).message_group_id


def test_columns_of_parquet_keep_their_types(tmp_path):
    """A folder of files is read in the order of their names."""
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    for number in (2, 1):
        table = pa.table({"n": [number], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
        parquet.write_table(table, tmp_path / f"{number}.parquet")

    assert [row["data"] for row in rows(tmp_path, "--format", "parquet", "--select", "n, at")] == [
        {"n": 1, "at": moment},
        {"n": 2, "at": moment},
    ]


def test_digits_that_a_number_cannot_keep_are_refused_by_name(tmp_path):
    """One float has the first 17 digits of both; a decimal that it keeps is sent."""
    texts = ["12345678901234567.111", "12345678901234567.222", "0.1"]
    parquet.write_table(
        pa.table({"a": pa.array(map(Decimal, texts), pa.decimal128(38, 18))}), tmp_path / "a.parquet"
    )

    first, second, good = rows(tmp_path / "a.parquet")

    assert "12345678901234567.111000000000000000 has more digits" in refusal(first)
    assert "12345678901234567.222000000000000000 has more digits" in refusal(second)
    assert '"data":{"a":0.1}' in RowReader(kind="a.kind", priority=0).item(good, 1).body


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.array([b"a"]), "a is binary, which JSON cannot express"),
        (pa.array([[{"b": 1}]], pa.list_(pa.struct([("b", pa.time64("us"))]))), r"a\[\].b is time64"),
        (pa.array([[(1, "x")]], pa.map_(pa.int32(), pa.string())), "keys of a JSON object are strings"),
        (pa.StructArray.from_arrays([pa.array([1])] * 2, ["b", "b"]), "a has 'b' more than once"),
    ],
)
def test_types_that_json_lacks_are_named_before_the_first_row(tmp_path, column, problem):
    """Unless the column is not selected."""
    parquet.write_table(pa.table({"a": column, "n": [1]}), tmp_path / "a.parquet")

    with pytest.raises(ConfigurationError, match=problem):
        rows(tmp_path / "a.parquet")
    assert rows(tmp_path / "a.parquet", "--select", "n") == [{"data": {"n": 1}}]


def test_columns_with_one_name_are_refused(tmp_path):
    """A message would have the last of them."""
    parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]), tmp_path / "a.parquet")

    with pytest.raises(ConfigurationError, match="column 'a' occurs more than once"):
        rows(tmp_path / "a.parquet")


def test_a_folder_of_parquet_is_one_table(tmp_path):
    """As Spark reads it: without hidden files and unfinished ones, and a column that a file lacks is null."""
    for name in ("b.parquet", "_temporary/0/c.parquet", ".d.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"n": [1]}), tmp_path / name)
    parquet.write_table(pa.table({"a.b": ["x"], "n": [2]}), tmp_path / "a.parquet")

    found = rows(tmp_path, "--format", "parquet", "--id", "n")

    assert found == [{"data": {"a.b": "x", "n": 2}, "id": 2}, {"data": {"a.b": None, "n": 1}, "id": 1}]


def test_files_that_are_not_one_table_are_refused(tmp_path):
    """Neither may a column be of two types, nor be in the names of folders."""
    parquet.write_table(pa.table({"n": ["1"]}), tmp_path / "a.parquet")
    (tmp_path / "day=7").mkdir()
    parquet.write_table(pa.table({"n": [1]}), tmp_path / "day=7/b.parquet")

    with pytest.raises(ConfigurationError, match=r"folder 'day=7' in .* has the value of a column"):
        rows(tmp_path, "--format", "parquet")
    (tmp_path / "day=7/b.parquet").rename(tmp_path / "b.parquet")
    with pytest.raises(ConfigurationError, match="are not one table"):
        rows(tmp_path, "--format", "parquet")


@pytest.mark.parametrize(
    ("name", "content", "arguments", "problem"),
    [
        ("a.csv", "id,n\n1,2\n", ["--id", "key"], "there is no column 'key'; columns are id, n"),
        ("a.csv", "", ["--id", "key"], "there is no column 'key'; columns are none"),
        ("a.jsonl", '{"id": 1}\n{}', ["--id", "key"], "there is no field 'key' in any line"),
        ("a.csv", "id,n\n1\n", [], "line 2 has another number of fields than the 2 names"),
        ("a.csv", "id,id\n1,2\n", [], "column 'id' occurs more than once"),
        ("a.csv", 'id\n"1', [], "is not CSV"),
        ("a.txt", "id\n", [], "the format of '.*a.txt' is unknown; give --format parquet, csv or jsonl"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, name, content, arguments, problem):
    """With the place and the next step."""
    (tmp_path / name).write_text(content)

    with pytest.raises(ConfigurationError, match=problem):
        rows(tmp_path / name, *arguments)


def test_a_file_of_another_encoding_is_refused(tmp_path):
    """Rather than sent with other letters."""
    (tmp_path / "a.csv").write_bytes("name\nMüller\n".encode("latin-1"))

    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        rows(tmp_path / "a.csv")


def test_a_part_of_a_delta_table_is_refused(tmp_path):
    """Its deleted rows would be sent too."""
    (tmp_path / "_delta_log").mkdir()
    parquet.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")

    with pytest.raises(ConfigurationError, match="a table of Delta"):
        rows(tmp_path / "a.parquet")


def test_a_dry_run_makes_each_message(tmp_path):
    """Rows, messages and refused rows are three numbers."""
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(['{"n": 1}', '{"n": 1}', '{"n": NaN}', "[" * 3]))

    found = describe(parser().parse_args([str(file), "--kind", "a.kind"]))

    assert (found["rows"], found["messages"], found["refused"]) == (4, 1, 2)
    assert found["refusals"][0]["row"] == 3
    assert "NaN is not a JSON number" in found["refusals"][0]["reason"]


def test_ids_that_repeat_are_refused_before_anything_is_sent(tmp_path):
    """Two rows with one id are one message."""
    file = tmp_path / "a.csv"
    file.write_text("symbol,n\nIBM,1\nIBM,2\nSAP,3\n")
    asked = [str(file), "--kind", "a.kind", "--id", "symbol", "--deployment", make_deployment().to_json()]

    with pytest.raises(ConfigurationError, match="--id symbol repeats: 3 rows have 2 ids"):
        send(parser().parse_args(asked))


def test_a_pipe_is_read_once(tmp_path, capsys):
    """Its rows are counted before they are sent."""
    pipe = tmp_path / "rows.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"n": 1}\n{"n": 2}\n',))
    writer.start()

    assert main([str(pipe), "--kind", "a.kind", "--dry-run"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["messages"] == 2


def test_errors_end_the_command_with_a_reason(tmp_path, capsys):
    """And not with a traceback."""
    assert main([str(tmp_path / "none.csv"), "--kind", "a.kind", "--dry-run"]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--manifest", "runs"], "--manifest needs --run"),
        (["--follow"], "--follow needs --run"),
        (["--take-over"], "--take-over needs --run"),
        (["--on-error", "quarantine"], "--on-error quarantine needs --run"),
        (["--run", "r", "--on-complete", "a.end"], "--on-complete needs --follow"),
    ],
)
def test_arguments_that_need_another_are_refused(capsys, arguments, problem):
    """What is sent is recorded under the name of a run."""
    with pytest.raises(SystemExit):
        main(["a.csv", "--kind", "a.kind", *arguments])

    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--run", "_x", "--follow"], "--run is '_x'; with --follow it must begin with a letter or digit"),
        (["--max-send-rate", "runId"], "--max-send-rate is 'runId'; a number"),
        (["--shards", "0"], "--shards is '0'; a whole number"),
        (["--stack", "a", "--deployment", "{}"], "--deployment: "),
    ],
)
def test_errors_name_the_arguments_of_the_command(tmp_path, capsys, arguments, problem):
    """Whoever types them need not know the options of the writer."""
    (tmp_path / "a.csv").write_text("n\n1\n")

    assert main([str(tmp_path / "a.csv"), "--kind", "a.kind", *arguments]) == 1
    assert problem in (error := capsys.readouterr().err)
    assert "option" not in error


def test_numbers_of_the_summary_are_json(tmp_path, capsys):
    """The last line is for programs."""
    (tmp_path / "a.csv").write_text("n\n1\n")

    assert main([str(tmp_path / "a.csv"), "--kind", "a.kind", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
