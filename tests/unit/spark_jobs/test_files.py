"""Files without Spark: their rows, and what is refused."""

import json
import os
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import parquet

from lanes.errors import ConfigurationError
from spark_jobs.files import describe, main, parser, rows_of, send
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
    assert rows(file, "--select", "n")[:2] == [{"data": {"n": 1}}, {"data": {"n": None}}]


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


@pytest.mark.parametrize(
    ("name", "content", "arguments", "problem"),
    [
        ("a.csv", "id,n\n1,2\n", ["--id", "key"], "there is no column 'key'; columns are id, n"),
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


def test_a_manifest_without_a_run_is_refused(capsys):
    """A rerun could not find it."""
    with pytest.raises(SystemExit):
        main(["a.csv", "--kind", "a.kind", "--manifest", "runs"])

    assert "--manifest needs --run" in capsys.readouterr().err


def test_numbers_of_the_summary_are_json(tmp_path, capsys):
    """The last line is for programs."""
    (tmp_path / "a.csv").write_text("n\n1\n")

    assert main([str(tmp_path / "a.csv"), "--kind", "a.kind", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
