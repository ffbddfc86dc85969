"""Shell completion, as a shell asks for it."""

import pytest

from lanes.cli import arguments
from lanes.cli.arguments import kinds_here
from tests.support.command import Typed


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lanes t", {"trace", "tail"}),
        ("lanes tail --ev", {"--event"}),
        ("lanes dead-letters sh", {"show"}),
        ("lanes pause M", {"MEDIUM", "MAIN"}),
        ("lanes dead-letters redrive H", {"HIGH"}),
        ("lanes --stage demo-", {"demo-off", "demo-pull"}),
        ("lanes tail --kind payment.", {"payment.captured"}),
        ("lanes cancel --kind refund", {"refund.requested"}),
        ("lanes dead-letters list --kind order.p", {"order.placed"}),
        ("lanes send order.p", {"order.placed"}),
    ],
)
def test_a_shell_is_offered_verbs_options_and_names(words, offered):
    """Those that begin like the typed word: lanes and stages of the lanes.toml here, kinds of the handlers here."""
    typed = Typed()
    place = str(len(words.split()) - 1)
    typed.variables |= {"_LANES_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}

    done = typed()

    assert set(done.stdout.split()) == offered


def test_kinds_of_the_tables_by_kind_are_offered(tmp_path, monkeypatch):
    """A producer's folder has no handlers; a pattern is no kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lanes.toml").write_text(
        '[consumer.max_rates]\n"order.placed" = "1/s"\n"invoice.*" = "1/s"\n'
    )

    assert kinds_here("") == ["order.placed"]


@pytest.mark.parametrize("text", ["[consumer", "consumer = 3", "[consumer]\nmax_rates = 1"])
def test_a_broken_file_offers_nothing(tmp_path, monkeypatch, text):
    """A shell shows no errors of a completion."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lanes.toml").write_text(text)

    assert kinds_here("") == []


def test_kinds_are_searched_in_a_bounded_number_of_folders_and_in_no_virtual_environment(
    tmp_path, monkeypatch
):
    """A shell waits for the answer, also in a folder with all your data."""
    for folder in ("app", "venv/lib", "node_modules/x", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "handler.py").write_text(f'@consumer.handler("kind.{folder}")')
    monkeypatch.chdir(tmp_path)
    assert kinds_here("") == ["kind.app"]

    monkeypatch.setattr(arguments, "MOST_FOLDERS", 1)
    assert kinds_here("") == []
