"""
Mutants of a package, and the tests that notice them: `python -m tests.support.mutation outbox --sample 40`.

Cosmic Ray makes the mutants. Its own runs start a new Python for each one, which takes longer than the tests; here a
child is forked from a process that has loaded the large packages already. A mutant lives in a copy of the package.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import parso
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider

from tests.mutation.nets import NETS

ROOT = Path(__file__).parents[2]
ARGUED = ROOT / "tests" / "mutation" / "survivors.toml"
SETTING = re.compile(r"[A-Z_]+(, [A-Z_]+)* = ")
COPIED = ("lanes", "spark_jobs")
WARM = (
    "tests.support.mutation",
    "boto3",
    "hypothesis",
    "moto.dynamodb.models",
    "sqlalchemy",
    "pyarrow",
    "xdist.scheduler",
)
IGNORED = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
OUTPUT, SECONDS = "output.txt", "seconds.txt"
TEST_SECONDS, WALL_SECONDS = (
    20,
    240,
)  # against mutants that wait for ever; CPU time ends those that compute for ever

# One or two replacements for each operator of the language: its neighbour, and its opposite.
OPERATORS = (
    *(
        f"ReplaceBinaryOperator_{one}"
        for one in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul")
    ),
    *(
        f"ReplaceComparisonOperator_{one}"
        for one in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "LtE_Gt")
    ),
    *(
        f"ReplaceComparisonOperator_{one}"
        for one in ("Gt_LtE", "GtE_Lt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
    ),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot", "NumberReplacer"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ExceptionReplacer", "ZeroIterationForLoop"),
)


class DropCall(Operator):
    """Replaces a statement that only calls something by `pass`; Cosmic Ray has no such operator."""

    def mutation_positions(self, node):
        if node.type == "simple_stmt" and _is_call(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node, index):
        indent = node.get_first_leaf().prefix
        node.children[0] = parso.parse(f"{indent}pass")
        return node

    @classmethod
    def examples(cls):
        return ()


def _is_call(node):
    return node.type in ("atom_expr", "power") and node.children[-1].get_code().startswith("(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A changed line: its operator, its text and the `turn` within the line identify it, wherever the code moves to."""

    path: Path
    row: int
    operator: str
    line: str
    turn: int
    occurrence: int

    def __str__(self):
        becomes = self.source().split("\n")[self.row - 1].strip()
        return f"{self.path}:{self.row} {self.operator} {self.turn}\n    - {self.line}\n    + {becomes}"

    @property
    def identity(self):
        """A survivor's key in the table of the argued ones."""
        return self.operator, self.line, self.turn

    @property
    def rank(self):
        """A number that depends on nothing but the line, so that a sample stays the same when other lines change."""
        return hashlib.sha256(repr(self.identity).encode()).hexdigest()

    def source(self):
        """Return the whole module with the changed line."""
        return mutate_code((ROOT / self.path).read_text(), _operators()[self.operator], self.occurrence)


@cache
def _operators():
    provider = OperatorProvider()
    return {"DropCall": DropCall(), **{name: provider[name]() for name in OPERATORS}}


def mutants(path):
    """Give the mutants of a module, whose path is relative to the project."""
    source = (ROOT / path).read_text()
    lines = source.split("\n")
    nodes = list(ast_nodes(get_ast(source)))
    for name, operator in _operators().items():
        seen = Counter()
        positions = ((node, start[0]) for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (node, row) in enumerate(positions):
            line = lines[row - 1].strip()
            seen[line] += 1
            if not _without_meaning(node, line):
                yield Mutant(
                    path=path, row=row, operator=name, line=line, turn=seen[line], occurrence=occurrence
                )


def _without_meaning(node, line):
    # Imports for the type checker; tuned numbers, of which a test would be a copy; frozen
    # and slotted records, which mypy checks; the star in a list of parameters, which
    # Cosmic Ray takes for a product; and an exception whose name has a dot, at which it fails.
    return (
        "TYPE_CHECKING" in line
        or SETTING.match(line)
        or line.startswith("@dataclass")
        or (node.parent is not None and node.parent.type == "parameters")
        or (node.type == "except_clause" and "." in node.get_code())
    )


@cache
def argued():
    """Give the records: by package, the survivors with the reason why no test can notice them."""
    return tomllib.loads(ARGUED.read_text())


def sample(package, size):
    """Give `size` mutants of a package, the same ones in each run, or all of them if `size` is 0; none argued."""
    known = {(one["operator"], one["line"], one.get("turn", 1)) for one in argued()[package]["argued"]}
    found = [one for net in NETS[package] for path in net.paths() for one in mutants(path)]
    found = [one for one in found if one.identity not in known]
    return sorted(found, key=lambda one: one.rank)[: size or None]


class Bench:
    """A copy of the packages, in which mutants take turns, and the CPU time that each set of tests takes."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(WARM))
        self._seconds = {}
        for name in COPIED:
            shutil.copytree(ROOT / name, self._folder / name)

    def measure(self, net):
        """Run tests on the copy as it is; raise AssertionError if they fail."""
        if not self._passes(net, WALL_SECONDS):
            raise AssertionError(f"{net} fails without a mutant:\n{(self._folder / OUTPUT).read_text()}")
        self._seconds[net] = float((self._folder / SECONDS).read_text())

    def survives(self, mutant, net):
        """Return whether no test notices a mutant; tests that take far more time than usual have noticed it."""
        place = self._folder / mutant.path
        original, times = place.read_text(), place.stat()
        place.write_text(mutant.source())
        os.utime(
            place, (1, 1)
        )  # a form compiled of another mutant in the same second would be taken for this one's
        try:
            return self._passes(net, math.ceil(3 * self._seconds[net] + 5))
        finally:
            place.write_text(original)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _passes(self, net, cpu_seconds):
        run = self._context.Process(target=_run, args=(str(self._folder), net.arguments(), cpu_seconds))
        run.start()
        run.join(WALL_SECONDS)
        if run.is_alive():
            run.kill()
            run.join()
        return run.exitcode == 0


def _run(folder, arguments, cpu_seconds):
    os.chdir(ROOT)
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}", f"--basetemp={folder}/tmp"]
    with (Path(folder) / OUTPUT).open("w") as file, redirect_stdout(file), redirect_stderr(file):
        status = pytest.main([*arguments, *options, *IGNORED, "-o", f"pythonpath={folder} ."])
    (Path(folder) / SECONDS).write_text(str(time.process_time()))
    os._exit(status)


def survivors(package, size, *, only="", say=lambda _text: None):
    """
    Return the mutants of a sample that no test notices, and the number of mutants.

    Raises:
        AssertionError: the tests fail without a mutant.

    """
    nets = {path: net for net in NETS[package] for path in net.paths()}
    chosen = [one for one in sample(package, size) if only in str(one.path)]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        for net in dict.fromkeys(nets[one.path] for one in chosen):
            bench.measure(net)
        for number, one in enumerate(chosen, 1):
            survived = bench.survives(one, nets[one.path])
            say(f"{number} of {len(chosen)} {'survived' if survived else 'killed'}: {one}")
            found += [one] * survived
    return found, len(chosen)
