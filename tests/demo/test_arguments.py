"""The options of `python -m local demo`."""

import fcntl
import os

import pytest

from local.__main__ import main
from local.demo import command


@pytest.fixture(autouse=True)
def _unchanged(monkeypatch):
    """Signal handlers and variables of the tests stay as they are."""
    monkeypatch.setattr(command, "interrupt_once", lambda: None)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.setenv(name, os.environ[name])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--customers", "many"], "argument --customers: 'many' is not a whole number from 100 to 10000000"),
        (["--customers", "99"], "'99' is not a whole number from 100"),
        (["--customers", "-5"], "'-5' is not a whole number from 100"),
        (["--shards", "0"], "argument --shards: '0' is not a whole number from 1 to 120000"),
        (["--seed", "1.5"], "argument --seed: '1.5' is not a whole number"),
        (["--what"], "unrecognized arguments: --what"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(capsys, arguments, words):
    """Before anything starts."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", *arguments])

    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_second_demo_keeps_out_of_the_folder_of_the_first(tmp_path, capsys):
    """It says what to do."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        status = main(["demo", "--output", str(tmp_path)])

    assert status == 1
    assert "another demo is writing to" in capsys.readouterr().err


def test_an_output_that_cannot_be_a_folder_is_told_plainly(tmp_path, capsys):
    """No traceback."""
    (tmp_path / "file").write_text("")

    status = main(["demo", "--output", str(tmp_path / "file")])

    assert status == 1
    said = capsys.readouterr().err
    assert said == f"local demo: --output: {tmp_path / 'file'} can't be a folder to write to: File exists\n"


def test_handlers_in_place_of_the_sample_are_told_before_anything_starts(tmp_path, monkeypatch, capsys):
    """The demo would wait in vain for what the sample prints."""
    handler = tmp_path / "lambdas" / "consumer" / "handler.py"
    handler.parent.mkdir(parents=True)
    handler.write_text('@consumer.handler("order.placed")\n')
    monkeypatch.setattr(command, "ROOT", tmp_path)

    status = main(["demo", "--output", str(tmp_path / "out")])

    assert status == 1
    said = capsys.readouterr().err
    assert said.startswith(f"local demo: {handler} is not the sample application any more: it knows no ")
    assert "customer.loyalty_tier" in said
    assert said.endswith(f"git checkout -- {handler}\n")
    assert not (tmp_path / "out").exists()


def test_the_sample_is_taken_for_the_sample():
    """As it stands in this repository."""
    command.check_sample(command.ROOT / "lambdas" / "consumer" / "handler.py")
