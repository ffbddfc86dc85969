"""The consumer that `lanes work` imports by its name."""

import sys

import pytest

from lanes.errors import ConfigurationError
from lanes.work.slot import load_consumer
from lanes.work.supervisor import search_path

SOURCES = {
    "parcels.py": "from lanes import Consumer\nconsumer = other = Consumer()\nlimit = 5\n",
    "parcels_needs.py": "import nowhere_to_be_found\n",
    "parcels_fails.py": "raise RuntimeError('no database')\n",
    "parcels_exits.py": "raise SystemExit('set PARCELS_TOKEN')\n",
    "parcels_empty.py": "",
    "depot/__init__.py": "",
    "depot/handler.py": "from parcels import consumer\n",
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """A working directory with modules, of which nothing stays imported."""
    for name, source in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in [name for name in sys.modules if name.startswith(("parcels", "depot"))]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["parcels:consumer", "depot.handler:consumer"])
def test_a_module_of_the_working_directory_is_found(name):
    """Also in a package."""
    consumer = load_consumer(name)

    assert consumer is sys.modules["parcels"].consumer


@pytest.mark.parametrize(
    "name", ["parcels", "parcels:", ":consumer", "depot/handler.py:consumer", "parcels:a:b", ".parcels:a", ""]
)
def test_another_form_is_shown_the_right_one(name):
    """Such as the path of a file."""
    with pytest.raises(ConfigurationError, match="is not of the form MODULE:CONSUMER; write the module as"):
        load_consumer(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("parcls:consumer", "there is no module 'parcls' in /"),
        ("depot.handlr:consumer", "there is no module 'depot.handlr' in /"),
        ("parcels.handler:consumer", "there is no module 'parcels.handler' in /"),
        ("parcels:consumr", "parcels:consumr: there is no such name; did you mean 'consumer'?"),
        (
            "parcels_empty:consumer",
            "parcels_empty:consumer: there is no such name; the module has no lanes.Consumer",
        ),
        ("parcels:limit", "it is of type int, no lanes.Consumer; known: consumer, other"),
        ("parcels:Consumer", "it is of type type, no lanes.Consumer; did you mean 'consumer'?"),
        ("parcels_needs:consumer", "parcels_needs could not be imported: ModuleNotFoundError: No module"),
        ("parcels_fails:consumer", "parcels_fails could not be imported: RuntimeError: no database"),
        ("parcels_exits:consumer", "parcels_exits could not be imported: SystemExit: set PARCELS_TOKEN"),
    ],
)
def test_each_mistake_is_named(name, problem):
    """One error each, with the value and the remedy."""
    with pytest.raises(ConfigurationError) as raised:
        load_consumer(name)

    assert problem in str(raised.value)


def test_the_standard_library_comes_before_the_folder_and_the_folder_before_installed_packages(tmp_path):
    """A module of the folder replaces none that boto3 means, wherever the folder was on the path before."""
    standard = [
        path for path in sys.path if path.endswith(("lib-dynload", f"python3.{sys.version_info.minor}"))
    ]
    given = ["", str(tmp_path), "/more", *standard, "/site-packages"]

    assert search_path(given, folder=tmp_path) == [*standard, str(tmp_path), "/more", "/site-packages"]


def test_a_failed_import_names_the_modules_that_pythons_own_hide(tmp_path):
    """The handler meant its own `calendar.py`."""
    (tmp_path / "calendar.py").write_text("holidays = []\n")
    (tmp_path / "select").mkdir()
    (tmp_path / "select/__init__.py").touch()
    (tmp_path / "parcels_hidden.py").write_text("from calendar import holidays\n")

    with pytest.raises(
        ConfigurationError, match=r"Python's own modules hide calendar\.py, select in /.*other names"
    ):
        load_consumer("parcels_hidden:consumer")


def test_the_place_of_an_error_in_the_module_is_printed(capfd):
    """Its traceback, which the user needs to mend it."""
    with pytest.raises(ConfigurationError):
        load_consumer("parcels_fails:consumer")

    assert 'parcels_fails.py", line 1' in capfd.readouterr().err
