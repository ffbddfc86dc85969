"""How people install the library, until PyPI has it and after that; and the metadata of a release."""

import re
import tomllib

from lanes import installing
from tests.docs.pages import ROOT, name_of, pages

# With or without quotes, options and the path of a checkout.
INSTALLED = re.compile(r"pip install [^`\n]*?priority-lanes[^`\n]*")
SOURCES = [
    path
    for folder in ("lanes", "cdk", "local", "simulator", "spark_jobs", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_pages_install_from_the_place_that_has_the_library():
    """From a checkout, until `RELEASED` says that PyPI has it."""
    for page in pages():
        for command in INSTALLED.findall(page.read_text()):
            assert (f"'{installing.CHECKOUT}[" in command) != installing.RELEASED, (name_of(page), command)


def test_errors_name_one_place_to_install_from():
    """Messages ask `install_hint`, so that a release changes all of them."""
    written = {str(path.relative_to(ROOT)) for path in SOURCES if "pip install" in path.read_text()}
    own = {path for path in written if INSTALLED.search((ROOT / path).read_text())}

    assert not own
    assert "lanes/installing.py" in written


def test_the_metadata_of_a_release_is_complete():
    """PyPI shows it; the licence's text travels with the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert {"name", "description", "readme", "license", "keywords", "classifiers"} <= set(project)
    assert all((ROOT / name).is_file() for name in [project["readme"], *project["license-files"]])
    assert not [one for one in project["classifiers"] if one.startswith("License ::")], (
        "license is an expression"
    )
    assert bool(project.get("urls")) == installing.RELEASED, (
        "the repository has an address with the first release"
    )
