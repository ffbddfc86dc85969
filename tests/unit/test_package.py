"""The package as a whole: imports, public names, and the examples in docstrings."""

import doctest
import graphlib
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import lanes
from lanes import message, message_filter, priority, trace_context
from lanes.config import model
from lanes.outbox import operations as entry_operations

PACKAGES = ("lanes", "cdk", "local", "lambdas", "simulator", "spark_jobs", "benchmarks")


def test_no_modules_import_each_other_in_a_circle():
    """A reader can begin with any module and go down; `CycleError` names the circle."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    order = list(graphlib.TopologicalSorter(imports).static_order())

    assert len(order) == len(graph.modules)


ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there():
    """Each is found in the module that the table says."""
    for name in lanes.__all__:
        assert getattr(lanes, name).__name__ == name
    assert set(lanes.__all__) <= set(dir(lanes))


def test_a_name_that_is_not_there_fails_as_usual():
    """`hasattr` and `from lanes import` rely on it."""
    with pytest.raises(AttributeError, match="Tier"):
        lanes.Tier  # noqa: B018 - reading it is the point


def test_importing_the_producer_loads_no_aws_library():
    """boto3 costs a quarter of a second; it is loaded when a client is made."""
    code = "import sys; from lanes import *; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


MODULES = [model, message, message_filter, priority, trace_context, entry_operations]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_docstrings_do_what_they_say(module):
    """An example that lies is worse than none."""
    failed, attempted = doctest.testmod(module)

    assert attempted
    assert not failed
