"""The job for any table: its input, its messages, its check."""

import csv
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from lanes.errors import ConfigurationError
from spark_jobs.contents import Contents, one_each
from spark_jobs.enqueue import main
from spark_jobs.partitions import write_partitions

CUSTOMERS = [{"customer": f"c-{number}", "tier": "gold", "spent": number} for number in range(30)]


def table(tmp_path):
    """Write the customers as Parquet."""
    path = tmp_path / "customers.parquet"
    parquet.write_table(pa.Table.from_pylist(CUSTOMERS), path)
    return str(path)


def test_rows_of_files_become_messages(do, lanes, tmp_path):
    """Columns that are selected are the data; id and group are expressions."""
    done = do(
        *["--table", table(tmp_path), "--select", "customer, spent * 2 AS double"],
        *["--id", "concat('run-1:', customer)", "--group-by", "customer", "--priority", "LOW"],
    )

    arrived = lanes.take("MAIN")
    assert {(group, event["id"], event["priority"], event["type"]) for group, event in arrived} == {
        (row["customer"], f"run-1:{row['customer']}", -50, "customer.remind") for row in CUSTOMERS
    }
    assert {(event["data"]["customer"], event["data"]["double"]) for _, event in arrived} == {
        (row["customer"], row["spent"] * 2) for row in CUSTOMERS
    }
    assert done["sent"] == 30


def test_rows_of_a_query_become_messages(do, lanes, tmp_path):
    """The query names tables as views; a manifest gives the account."""
    done = do(
        *["--sql", "SELECT customer FROM people WHERE spent >= 20"],
        *["--view", f"people={table(tmp_path)}", "--id", "customer"],
        *["--run", "spring", "--manifest", str(tmp_path / "runs")],
    )

    assert {event["data"]["customer"] for _, event in lanes.take("MAIN")} == {
        row["customer"] for row in CUSTOMERS if row["spent"] >= 20
    }
    assert {name: done[name] for name in ("sent", "skipped", "quarantined", "run")} == {
        "sent": 10,
        "skipped": 0,
        "quarantined": 0,
        "run": "spring",
    }


def test_a_group_arrives_in_the_order_that_is_named(do, lanes, tmp_path):
    """Whatever files its rows are in: a repartition alone keeps no order."""
    numbers = iter(range(60))
    for place, rows in enumerate((9, 10, 20, 10, 1, 10)):
        made = [{"seq": next(numbers), "customer": "c1"} for _ in range(rows)]
        parquet.write_table(pa.Table.from_pylist(made), tmp_path / f"{9 - place}.parquet")

    done = do(
        *["--table", str(tmp_path), "--group-by", "customer"],
        *["--order-by", "CASE WHEN seq < 0 THEN 1 ELSE 0 END, seq DESC", "--select", "customer, seq AS n"],
    )

    assert [event["data"]["n"] for _, event in lanes.take("MAIN")] == list(reversed(range(60)))
    assert done["order"] == "CASE WHEN seq < 0 THEN 1 ELSE 0 END, seq DESC"


def test_without_an_order_the_summary_says_that_a_group_has_none(do, tmp_path):
    """Also in a check."""
    asked = ["--table", table(tmp_path), "--group-by", "tier"]

    assert do(*asked)["order"] == do(*asked, "--check")["order"]
    assert do(*asked, "--check")["order"].startswith("none; a table of several files has no order")
    assert "order" not in do(*asked, "--ordering", "none", "--check")


def test_csv_is_text_unless_a_schema_is_named(do, lanes, tmp_path):
    """007, 7 and 08 are three ids, a zip keeps its zero, 1E5 and 2D are codes."""
    path = tmp_path / "codes.csv"
    path.write_text("id,zip\n007,01221\n7,1E5\n08,2D\n")
    asked = ["--table", str(path), "--format", "csv", "--id", "id"]

    assert do(*asked)["sent"] == 3
    assert {event["id"]: event["data"]["zip"] for _, event in lanes.take("MAIN")} == {
        "007": "01221",
        "7": "1E5",
        "08": "2D",
    }

    do(*asked, "--schema", "id STRING, zip DOUBLE", "--id", "concat('n', id)", "--select", "zip")
    assert {event["id"]: event["data"]["zip"] for _, event in lanes.take("MAIN")}["n007"] == 1221.0


def test_csv_is_read_as_by_python(do, lanes, tmp_path):
    """Quotation marks are doubled, as other programs write them; an empty field is null, with or without marks."""
    path = tmp_path / "notes.csv"
    path.write_text('id,note\n1,"said ""yes"", then left"\n2,5" pipe\n3,""\n4,\n5,"C:\\\\tmp"\n')

    assert do("--table", str(path), "--format", "csv", "--id", "id")["sent"] == 5
    sent = {event["id"]: event["data"] for _, event in lanes.take("MAIN")}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sent == {row["id"]: {name: value or None for name, value in row.items()} for row in rows}
    assert sent["1"]["note"] == 'said "yes", then left'


@pytest.mark.parametrize(
    ("second", "more"),
    [
        ("amount,id\n7,2\n", []),
        *(
            pytest.param(*one, marks=pytest.mark.deep)
            for one in (
                ("2,7\n3,8\n", []),
                ("id,amount\n2,7\n", ["--schema", "amount STRING, id STRING"]),
                ("id,amount,currency\n2,7,EUR\n", []),
            )
        ),
    ],
    ids=["another order", "no names", "schema in another order", "more columns"],
)
def test_files_of_csv_with_other_columns_send_nothing(do, lanes, tmp_path, second, more):
    """Ids would be amounts, or the first record would be lost as a line of names."""
    folder = tmp_path / "payments"
    folder.mkdir()
    (folder / "a.csv").write_text("id,amount\n1,5\n")
    (folder / "b.csv").write_text(second)

    with pytest.raises(
        ConfigurationError,
        match=r"CSV header.*enforceSchema=true|csv, line .: '.*' has . fields, and the columns are",
    ):
        do("--table", str(folder), "--format", "csv", "--id", "id", *more)
    assert lanes.waiting() == 0


def test_a_text_that_does_not_fit_the_schema_sends_nothing(do, lanes, tmp_path):
    """An amount would be null; the reader can be told to allow that."""
    path = tmp_path / "amounts.csv"
    path.write_text("id,amount\n1,5\n2,five\n")
    asked = ["--table", str(path), "--format", "csv", "--id", "id", "--schema", "id STRING, amount INT"]

    with pytest.raises(ConfigurationError, match="five"):
        do(*asked)
    assert lanes.waiting() == 0

    do(*asked, "--reader-option", "mode=PERMISSIVE")
    assert {event["id"]: event["data"]["amount"] for _, event in lanes.take("MAIN")} == {"1": 5, "2": None}


@pytest.mark.parametrize("wanted", ["", ",", "a,", "a,,b"])
def test_an_empty_key_of_an_order_is_refused(capsys, wanted):
    """As wrong usage."""
    with pytest.raises(SystemExit):
        main(["--table", "x", "--kind", "a.kind", "--group-by", "a", "--order-by", wanted])

    assert "has an empty key" in capsys.readouterr().err


def test_ids_that_repeat_fail_before_anything_is_sent(do, lanes, tmp_path):
    """Rows with one id are one message: 'sent 30' would be five messages."""
    asked = ["--table", table(tmp_path), "--id", "spent % 5"]

    with pytest.raises(ConfigurationError, match="30 rows have 5 ids"):
        do(*asked)
    assert lanes.waiting() == 0

    done = do(*asked, "--equal-rows", "one")
    assert (done["rows"], done["equal_rows"], done["sent"]) == (30, 25, 5)
    assert lanes.waiting() == 5


@pytest.mark.parametrize("column", ["map('tier', tier)", pytest.param("tier", marks=pytest.mark.deep)])
def test_equal_rows_are_one_message_and_counted(do, lanes, tmp_path, column):
    """An id that is derived from a row is that of its equals; Spark compares no maps, and they count too."""
    asked = [
        "--table",
        table(tmp_path),
        "--select",
        f"{column} AS of, spent DIV 10 AS n",
        "--group-by",
        "spent DIV 10",
    ]

    with pytest.raises(
        ConfigurationError, match=r"27 of 30 rows are equal .* 10 are .*gold.*--equal-rows each"
    ):
        do(*asked)
    assert lanes.waiting() == 0

    done = do(*asked, "--equal-rows", "one")
    assert (done["rows"], done["equal_rows"], done["sent"], lanes.waiting()) == (30, 27, 3, 3)

    done = do(*asked, "--equal-rows", "each")
    assert (done["rows"], done["equal_rows"], done["sent"], lanes.waiting()) == (30, 27, 30, 30)


@pytest.mark.parametrize(
    ("rows", "messages"),
    [
        ("map('a', 1, 'b', 2)), (map('b', 2, 'a', 1)), (map('a', 1, 'b', 3)", 2),
        ("0D), (-0D), (1D), (DOUBLE('NaN')", 4),
        ("array(struct(0F AS x))), (array(struct(-0F AS x))), (NULL), (array(NULL)", 4),
        ("'a' COLLATE UTF8_LCASE), ('A' COLLATE UTF8_LCASE", 2),
    ],
)
def test_rows_are_equal_if_their_messages_are(spark, rows, messages):
    """Spark compares no maps, takes 0.0 for -0.0, and text by its collation; the entries of a map have no order."""
    table = spark.sql(f"FROM VALUES ({rows}) AS t(value) SELECT struct(value) AS data")

    contents = Contents.of(table)
    assert contents.messages == messages
    assert one_each(table, contents, identity=None, equal_rows="one").count() == messages


@pytest.mark.deep
def test_the_name_of_a_run_belongs_to_one_kind_selection_and_table(do, lanes, tmp_path, capsys):
    """Used for another one it would send nothing, or other rows; a changed table is said before it is sent."""
    asked = ["--table", table(tmp_path), "--id", "customer"]
    run_of = ["--run", "air", "--manifest", str(tmp_path / "runs")]
    do(*asked, *run_of)

    for changed, problem in (
        (["--select", "customer"], "select is '\\*', and now 'customer'"),
        (["--priority", "LOW"], "priority is -100, and now -50"),
        (["--id", "concat('b', customer)"], "id is 'customer', and now"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            do(*asked, *run_of, *changed)
    assert lanes.waiting() == 30

    more = [*CUSTOMERS, {"customer": "c-new", "tier": "gold", "spent": 1}]
    parquet.write_table(pa.Table.from_pylist(more), tmp_path / "customers.parquet")
    done = do(*asked, *run_of)

    assert (done["sent"], done["skipped"], done["rows"]) == (1, 30, 31)
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "table_changed" in line]
    assert (json.loads(said)["before"]["rows"], json.loads(said)["now"]["rows"]) == (30, 31)


def test_a_check_makes_each_message_and_names_those_that_cannot_be_sent(do, lanes, tmp_path):
    """NaN is a value of Spark and not of JSON."""
    found = do(
        *["--table", table(tmp_path), "--check", "--id", "customer"],
        *["--select", "if(spent = 7, CAST('NaN' AS DOUBLE), spent) AS n"],
    )

    assert (found["refused"], lanes.waiting()) == (1, 0)
    ((first,),) = [cause["first"] for cause in found["causes"]]
    assert (first["id"], first["place"].rpartition("/")[2]) == ("c-7", "customers.parquet, row 8")
    assert first["row"] == "{'n': nan}"
    assert "its data cannot be written as JSON" in first["reason"]


def test_a_check_names_the_first_ten_of_each_cause(do, lanes, tmp_path):
    """With the file and the line of each; no row is sent before the last one is known."""
    lines = [json.dumps({"id": f"a-{number}"}) for number in range(40)]
    lines[5] = json.dumps({"id": "large", "text": "x" * 1_100_000})
    lines[7:31] = [f"no JSON {number}" for number in range(24)]
    file = tmp_path / "rows.json"
    file.write_text("\n".join(lines))

    found = do("--table", str(file), "--format", "json", "--id", "id", "--check")

    assert (found["rows"], found["refused"], lanes.waiting()) == (40, 25, 0)
    assert [(cause["rows"], len(cause["first"])) for cause in found["causes"]] == [(24, 10), (1, 1)]
    assert [row["place"].rpartition("/")[2] for row in found["causes"][0]["first"]] == [
        f"rows.json, line {number}" for number in range(8, 18)
    ]
    assert "line 6" in found["causes"][1]["first"][0]["place"]


def test_a_check_sends_nothing_and_says_what_would_be_sent(do, lanes, tmp_path):
    """Rows, repeated ids, counts by group, and messages that SQS would refuse."""
    found = do(
        *["--table", table(tmp_path), "--check"],
        *["--select", "customer, repeat('x', CASE WHEN spent = 7 THEN 1100000 ELSE spent END) AS text"],
        *["--id", "spent % 29"],
        *["--group-by", "CASE WHEN spent < 20 THEN 'small' ELSE 'large' END"],
    )

    assert lanes.waiting() == 0
    assert (found["rows"], found["groups"], found["refused"], found["equal_rows"]) == (30, 2, 1, 1)
    assert found["largest_groups"] == {"small": 20, "large": 10}
    assert "SQS accepts at most 1,048,576" in found["causes"][0]["first"][0]["reason"]


def test_a_wrong_option_fails_before_anything_is_read_by_tasks(do, lanes, tmp_path):
    """The errors are those of the writer, with option and allowed values."""
    with pytest.raises(ConfigurationError, match="option maxBacklog is 'many'"):
        do("--table", table(tmp_path), "--max-backlog", "many")

    assert lanes.waiting() == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--table", "x", "--reader-option", "mergeSchema"],
            "--reader-option: 'mergeSchema' is not a name, an equals",
        ),
        (["--sql", "SELECT 1", "--view", "cars"], "--view: 'cars' is not a name, an equals sign and a value"),
    ],
)
def test_names_without_values_are_refused(capsys, arguments, problem):
    """As wrong usage, before a session is opened."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--kind", "a.kind"])

    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--table", "{table}", "--id", "amont"], "`amont` cannot be resolved"),
        pytest.param(["--table", "{table}", "--select", "n amont +"], "Syntax error", marks=pytest.mark.deep),
        pytest.param(["--table", "{table}-of-yesterday"], "Path does not exist", marks=pytest.mark.deep),
    ],
)
def test_a_name_that_spark_does_not_know_is_an_error_of_one_line(do, lanes, tmp_path, more, said):
    """Without the plan of the query and Java's trace."""
    file = tmp_path / "orders.csv"
    file.write_text("n\n1\n")

    with pytest.raises(ConfigurationError, match=said) as caught:
        do(*(one.format(table=file) for one in more), "--format", "csv")

    assert "\n" not in caught.value.problems[0]
    assert lanes.waiting() == 0


def test_a_folder_of_another_format_is_not_sent(do, lanes, tmp_path):
    """Its log says which rows are deleted."""
    folder = tmp_path / "orders" / "year=2026"
    folder.mkdir(parents=True)
    (tmp_path / "orders" / "_delta_log").mkdir()
    table(folder)

    for source in (
        ["--table", str(tmp_path / "orders")],
        ["--table", str(folder / "*.parquet")],
        # The log is not above the path that was typed.
        ["--table", str(tmp_path / "ord*")],
        ["--sql", "SELECT * FROM orders", "--view", f"orders={folder}"],
    ):
        with pytest.raises(ConfigurationError, match="Name its format: --format delta"):
            do(*source)

    assert lanes.waiting() == 0


def test_a_run_and_its_manifest_belong_together(capsys):
    """Wrong usage ends before a session is opened."""
    with pytest.raises(SystemExit) as ended:
        main(["--table", "x", "--kind", "a.kind", "--run", "spring"])

    assert ended.value.code == 2
    assert "--run and --manifest belong together" in capsys.readouterr().err


def test_sparks_own_page_counts_the_rows_done(spark, lanes, tmp_path):
    """The query that sends gives a row for each row done and each task, and Spark counts the output of each step."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    store = spark._jsparkSession.sharedState().statusStore()
    known = store.executionsList().size()
    rows = spark.range(40, numPartitions=2).selectExpr(
        "IF(id < 3, '{', '1') AS data", "id", "IF(id = 7, 60, 0) AS priority"
    )

    done = write_partitions(
        rows, lanes.options(runId="r", manifestPath=str(tmp_path), onError="quarantine", stack=None)
    )

    assert (done["messages"], done["quarantined"], done["skipped"]) == (37, 3, 0)
    execution = store.executionsList().apply(known)
    assert output_rows(store, execution) == 42
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    # With a shuffle there would be two: Spark sends the rows of a task again if it loses its part of the shuffle.
    assert len(tracker.getJobInfo(job).stageIds) == 1


def output_rows(store, execution):
    """Give the number of rows that the step with the writer has given, as Spark's page shows it."""
    values = store.executionMetrics(execution.executionId())
    nodes = store.planGraph(execution.executionId()).allNodes()
    (scan,) = [one for one in map(nodes.apply, range(nodes.size())) if one.name().startswith("MapInArrow")]
    (metric,) = [
        one for one in map(scan.metrics().apply, range(scan.metrics().size())) if "rows" in one.name()
    ]
    return int(values.apply(metric.accumulatorId()).replace(",", ""))
