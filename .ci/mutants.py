"""
Change a module in one place after another, and print the changes that no test notices.

    .venv/bin/python .ci/mutants.py lanes/outbox/rules.py --sample 40 -- tests/outbox tests/contract -k "o2 or o3"

The arguments after `--` are pytest's. The mutants live in a copy of the module's package.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
OTHER = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
}
"""The operators that replace another one: its neighbour, and its opposite."""


def replacements(node: ast.AST) -> Iterator[str]:
    """Give the code that may replace a node."""
    match node:
        case ast.Compare(ops=[op]) | ast.BoolOp(op=op) | ast.BinOp(op=op):
            for other in OTHER.get(type(op), ()):
                changed = deepcopy(node)
                if isinstance(changed, ast.Compare):
                    changed.ops = [other()]
                else:
                    changed.op = other()
                yield f"({ast.unparse(changed)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int() | float() as value):
            yield str(value + 1)
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"


def mutants(source: str) -> Iterator[tuple[int, str]]:
    """Give the changed forms of a module, each with the line of the change."""
    lines = source.encode().splitlines(keepends=True)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        # Of a record's decorator every change survives.
        if isinstance(node, ast.ClassDef):
            node.decorator_list = []
        for code in replacements(node):
            before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
            after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
            yield node.lineno, (before + code.encode() + after).decode()


def passes(folder: str, arguments: list[str], seconds: float) -> bool:
    """Run the tests on the copy; tests that take too long have noticed the change."""
    quick = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={folder}/of-tests",
        "-o",
        f"pythonpath={folder} .",
    ]
    environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "pytest", *quick, *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Print each mutant that survives, and how many did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("module", type=Path, help="path of the module, relative to the project")
    parser.add_argument(
        "--sample", type=int, help="number of changes, the same ones in each run; all by default"
    )
    parser.add_argument("tests", nargs="+", help="arguments of pytest")
    options = parser.parse_args()
    source = (ROOT / options.module).read_text()
    found = list(mutants(source))
    if options.sample and options.sample < len(found):
        found = random.Random(1).sample(found, options.sample)  # noqa: S311 - the same ones in each run
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        package = options.module.parts[0]
        shutil.copytree(ROOT / package, Path(folder) / package, ignore=shutil.ignore_patterns("__pycache__"))
        # The constructs read the runbook, which is beside their package.
        (Path(folder) / "docs").symlink_to(ROOT / "docs")
        began = time.monotonic()
        if not passes(folder, options.tests, 600):
            sys.exit("the tests fail without a change")
        seconds = 3 * (time.monotonic() - began) + 5
        for line, changed in sorted(found):
            (Path(folder) / options.module).write_text(changed)
            if passes(folder, options.tests, seconds):
                survived += 1
                old, new = source.splitlines()[line - 1].strip(), changed.splitlines()[line - 1].strip()
                sys.stdout.write(f"{options.module}:{line}\n  - {old}\n  + {new}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{survived} of {len(found)} changes survived\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
