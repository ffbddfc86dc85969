"""Each row of a file of text is a message with its values as Python's own json and csv read them, or is refused."""

import csv
import json
from decimal import Decimal

import pytest

from lanes.errors import ConfigurationError
from spark_jobs.text_files import JsonPath, _Members, _sortable

LINES = r"""
{"id":"a","n":true}
{"id":"b","n":"true"}
{"id":"c","n":1}
{"id":"d","n":"1"}
{"id":"e","n":{"x":1}}
{"id":"f","n":9007199254740993}
{"id":"g","n":1.5}
{"id":"h","n":123456789012345678901234567890123456789012}
{"id":"i","n":[1,"a",null,2.5]}
{"id":"j","":1,"_corrupt_record":"x"}
{"id":"k" , "n" : 1e3,  "ü":"\u00fc😀" }
{"id":"l","N":1,"n":2,"at":"2026-01-02","null":null,"e":{},"l":[]}
""".strip().splitlines()


def waiting(lanes):
    """Give the data of all messages as it stands in the body, by id."""
    found = {}
    for body in lanes.take_bodies("MAIN"):
        found[json.loads(body)["id"]] = body[body.index('"data":') + 7 : body.rindex(',"priority"')]
    return found


def test_a_line_of_json_goes_out_as_it_stands(do, lanes, tmp_path):
    """No type of one line is inferred from another one; spaces, digits and names stay."""
    file = tmp_path / "rows.json"
    file.write_text("\ufeff" + "\r\n".join(LINES) + "\n\n")

    done = do("--table", str(file), "--format", "json", "--id", "id")

    assert (done["rows"], done["equal_rows"], done["sent"]) == (12, 0, 12)
    assert waiting(lanes) == {json.loads(line)["id"]: line for line in LINES}


def test_ids_groups_and_order_of_json_are_paths(do, lanes, tmp_path):
    """Numbers are sorted as numbers, in files of any order."""
    numbers = [7, -3, 10, 2.5, 0, 1e3, -20, 9007199254740993, 9007199254740992]
    for place, number in enumerate(numbers):
        row = {"key": {"id": place, "of": ["x", "g1"]}, "seq": number}
        (tmp_path / f"{place}.json").write_text(json.dumps(row))

    asked = ["--table", str(tmp_path), "--format", "json", "--id", "$.key.id", "--group-by", "key.of[1]"]
    do(*asked, "--order-by", "seq DESC")

    arrived = lanes.take("MAIN")
    assert [event["data"]["seq"] for _, event in arrived] == sorted(numbers, reverse=True)
    assert {group for group, _ in arrived} == {"g1"}
    assert {event["id"] for _, event in arrived} == set(map(str, range(len(numbers))))


@pytest.mark.parametrize(
    "case",
    [
        ('[{"id":1},{"id":2}]', [], r"line 1: .* is not a JSON object; .*jq -c '\.\[\]' FILE"),
        ('{"id":1}\n\n{"n":1}', [], "line 3: its id is missing or empty"),
        ('{"id":1}', ["--schema", "id INT"], "--schema is about columns"),
        ('{"id":1}', ["--group-by", "grp"], "no line has 'grp'"),
        *(
            pytest.param(one, marks=pytest.mark.deep)
            for one in (
                ('{\n"id":1\n}', [], r"line 1: '\{' is not a JSON object"),
                ('{"id":1}\n{"id":2', [], "line 2: .*is not a JSON object"),
                ('{"id":1}{"id":2}', [], "line 1: .*Extra data"),
                ('{"id":""}', [], "line 1: its id is missing or empty"),
                ('{"id":true}', [], "line 1: its id is True; a string, a whole number or a date is needed"),
                ('{"id":1,"id":2}', [], "line 1: its field 'id' occurs more than once"),
                ('{"id":1,"n":NaN}', [], "line 1: .*NaN"),
                ('{"id":1,"n":' + "[" * 2000 + "]" * 2000 + "}", [], "line 1: .*nested too deep"),
                ('{"id":1}', ["--reader-option", "multiLine=true"], "multiLine has no meaning"),
                ('{"id":1}', ["--select", "id"], "--select is about columns"),
                ('{"id":1}', ["--id", "concat('a', id)"], "of JSON a path is needed"),
                ('{"id":1,"s":true}', ["--group-by", "id", "--order-by", "s"], "neither text nor a number"),
            )
        ),
    ],
)
def test_a_line_that_is_not_one_object_is_refused_by_name(do, lanes, tmp_path, case):
    """Before anything is sent."""
    text, more, said = case
    file = tmp_path / "rows.json"
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=said):
        do("--table", str(file), "--format", "json", "--id", "id", *more)
    assert lanes.waiting() == 0


def test_a_line_of_a_later_block_has_its_number(spark, do, lanes, tmp_path):
    """However Spark divides the file."""
    lines = [json.dumps({"id": number, "text": "x" * 50}) for number in range(200)]
    lines[150] = "no JSON"
    file = tmp_path / "rows.json"
    file.write_bytes("\n".join(lines).encode() + b'\n{"id":"\xff"}\n')
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    try:
        with pytest.raises(ConfigurationError, match=r"rows.json, line 151: 'no JSON'.*") as caught:
            do("--table", str(file), "--format", "json", "--id", "id")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert "line 201: it is not UTF-8" in caught.value.problems[1]


def test_lines_that_cannot_be_sent_are_set_aside(do, lanes, tmp_path):
    """With quarantine, all others are sent."""
    file = tmp_path / "rows.json"
    file.write_text('{"id":1}\nno JSON\n{"n":1}\n')
    of_run = ["--run", "r", "--manifest", str(tmp_path / "runs"), "--on-error", "quarantine"]

    done = do("--table", str(file), "--format", "json", "--id", "id", "--equal-rows", "one", *of_run)

    assert (done["sent"], done["quarantined"]) == (1, 2)


def test_a_query_and_values_of_folders_are_refused_of_json(do, lanes, tmp_path):
    """Both would need columns that the lines don't have."""
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.json").write_text('{"id":1}')

    with pytest.raises(ConfigurationError, match="types that Spark infers from other rows"):
        do("--sql", "TABLE t", "--view", f"t={tmp_path}", "--format", "json")
    with pytest.raises(ConfigurationError, match="'day=1', which its lines lack"):
        do("--table", str(tmp_path), "--format", "json")

    all_lines = ["--reader-option", "recursiveFileLookup=true"]
    assert do("--table", str(tmp_path), "--format", "json", *all_lines)["sent"] == 1


@pytest.mark.parametrize(
    "case",
    [
        (b"id,a\n1,x\n2\n", [], "t.csv, line 3: '2' has 1 fields, and the columns are 2"),
        (b"id,a\n1,x\n2,y,z\n", [], "line 3: '2,y,z' has 3 fields"),
        (b'id,a\n1,"x\ny"\n', [], "line 2: .*unexpected end of data; .*multiLine=true"),
        (b'id,a\n1,"x\n2,y\n', ["multiLine=true"], "t.csv: .*unexpected end of data"),
        (b'id,a\r\n1,"x\r\ny"\r\n', ["multiLine=true"], r"line break of \\r\\n in a field"),
        (b'id,a\n1,"x\\"y"\n', [], "line 2: .*expected after"),
        ("id,a\n1,Müller\n".encode("cp1252"), [], "line 2: .*not UTF-8.*encoding=ISO-8859-1"),
        (b",id,a\n0,1,x\n", [], r"line 1: a column has no name, as pandas' to_csv\(\) .*index=False"),
        (b"id,id\n1,2\n", [], "line 1: the name 'id' occurs more than once"),
    ],
)
def test_a_line_that_is_not_csv_as_it_stands_is_refused_by_name(do, lanes, tmp_path, case):
    """Before anything is sent: its rest would be lost, two names become one, or a line break another."""
    text, more, said = case
    file = tmp_path / "t.csv"
    file.write_bytes(text)
    options = [word for option in more for word in ("--reader-option", option)]

    with pytest.raises(ConfigurationError, match=said):
        do("--table", str(file), "--format", "csv", "--select", "*", *options)
    assert lanes.waiting() == 0


def test_values_of_csv_are_those_of_python(do, lanes, tmp_path):
    """Text as it stands: marks, spaces, line breaks, codes that look like numbers, letters of another encoding."""
    plain = tmp_path / "plain.csv"
    plain.write_text('\ufeffid,a\n007,"a, ""b"""\n7,5" pipe\n1E5, x \n2D," y "\nü,1.10\n', newline="\r\n")
    lines = tmp_path / "lines.csv"
    lines.write_text('id,a\nl1,"x\ny"\nl2,"p\rq"\n', newline="")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("id,a\nm1,Müller\n".encode("latin-1"))

    do("--table", str(plain), "--format", "csv", "--id", "id")
    do("--table", str(lines), "--format", "csv", "--id", "id", "--reader-option", "multiLine=true")
    do("--table", str(latin), "--format", "csv", "--id", "id", "--reader-option", "encoding=ISO-8859-1")

    expected = {}
    for file, encoding in ((plain, "utf-8-sig"), (lines, "utf-8"), (latin, "latin-1")):
        with file.open(newline="", encoding=encoding) as opened:
            expected |= {row["id"]: row for row in csv.DictReader(opened)}
    assert {event["id"]: event["data"] for _, event in lanes.take("MAIN")} == expected


def test_a_name_with_letters_of_a_pattern_is_that_file(do, lanes, tmp_path):
    """Spark takes braces for a choice of names."""
    folder = tmp_path / "a{1}[2]"
    folder.mkdir()
    (folder / "t{x}.json").write_text('{"id":1}')

    assert do("--table", str(folder / "t{x}.json"), "--format", "json", "--id", "id")["sent"] == 1


def test_keys_of_an_order_sort_by_their_exact_values():
    """Spark's own comparison of bytes is that of Python."""
    numbers = [json.loads(text, parse_float=str) for text in ("-1e30", "-12", "-1.5", "-1.25", "-1e-9", "0")]
    numbers += [
        json.loads(text, parse_float=str) for text in ("1e-9", "0.5", "1", "1.5", "9", "10", "12", "9e99")
    ]
    numbers = [one if isinstance(one, int) else Decimal(one) for one in numbers]
    numbers[-1:-1] = [9007199254740992, 9007199254740993]

    keys = [_sortable(number) for number in numbers]

    assert keys == sorted(keys)
    assert _sortable(100) == _sortable(Decimal("1e2")) == _sortable(Decimal("100.0"))
    assert keys[-1] < _sortable("") < _sortable("a")


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        ("a", {"a": 1}, 1),
        ("$.a.b[1]", {"a": {"b": [1, 2]}}, 2),
        ("$['a.b'].c", {"a.b": {"c": 3}}, 3),
        ("a.b", {"a": [1]}, None),
        ("a[7]", {"a": [1]}, None),
    ],
)
def test_a_path_finds_its_value(text, line, value):
    """Of nested objects and lists; a value that is not there is none."""
    assert JsonPath.of(text, "--id").value(_members(line)) == value


def _members(value):
    if isinstance(value, dict):
        return _Members((name, _members(one)) for name, one in value.items())
    return list(map(_members, value)) if isinstance(value, list) else value
