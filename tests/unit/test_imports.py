"""The imports of all packages: late ones and those for the type checker count."""

import graphlib

import grimp

PACKAGES = ("lanes", "cdk", "local", "lambdas", "simulator", "spark_jobs", "benchmarks")


def test_no_modules_import_each_other_in_a_circle():
    """A reader can begin with any module and go down; `CycleError` names the circle."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    order = list(graphlib.TopologicalSorter(imports).static_order())

    assert len(order) == len(graph.modules)
