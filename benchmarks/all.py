"""
All benchmarks, one after the other: `make bench`.

Each runs in a process of its own and leaves its figures in `build/bench/NAME.json` and all that it printed in
`build/bench/NAME.txt`; `build/bench/table.md` holds every figure to its target. A run of all at full size also renews
`docs/benchmarks.json` and the page made from it, `docs/benchmarks.md`; `--page` does so from what lies in the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.page import page_of, table_of
from benchmarks.targets import TARGETS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LONGEST = 1800.0
"""Seconds after which a benchmark is stopped."""


def measured(name: str, *, quick: bool, into: Path) -> dict[str, Any]:
    """Run one benchmark; return the object of its last line, or what went wrong under `error`."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {LONGEST:.0f} s"}
    (into / f"{name}.txt").write_text(done.stdout, encoding="utf-8")
    try:
        line = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"exit status {done.returncode} and no figures"}
    (into / f"{name}.json").write_text(json.dumps(line, indent=2) + "\n", encoding="utf-8")
    return dict(line)


def surroundings() -> dict[str, Any]:
    """Return what a reader needs to know of the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
    }


def main() -> int:
    """Run them and write what they found; the exit status says whether all of them ran, not what they found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all", description="Run all benchmarks.")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that they run; the page stays"
    )
    parser.add_argument("--only", default="", help=f"some of {','.join(TARGETS)}; the page stays")
    parser.add_argument("--page", action="store_true", help="run nothing, renew the page from the folder")
    parser.add_argument(
        "--into", type=Path, default=ROOT / "build/bench", help="folder (default build/bench)"
    )
    options = parser.parse_args()
    if options.page:
        return _renew_page(options.into)
    names = options.only.split(",") if options.only else list(TARGETS)
    options.into.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in names:
        sys.stderr.write(f"{name} ... ")
        sys.stderr.flush()
        began = time.monotonic()
        results[name] = measured(name, quick=options.quick, into=options.into)
        sys.stderr.write(f"{results[name].get('error', 'done')}, {time.monotonic() - began:.0f} s\n")
    table = table_of(results)
    (options.into / "table.md").write_text(table, encoding="utf-8")
    sys.stdout.write(table)
    failed = [name for name, line in results.items() if "error" in line]
    if options.quick or options.only or failed:
        return 1 if failed else 0
    return _renew_page(options.into)


def _renew_page(into: Path) -> int:
    """Renew the page from the results in a folder; return 1, and leave it, where one is missing or of small size."""
    results, printed = {}, {}
    for name in TARGETS:
        path = into / f"{name}.json"
        line = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not line or line.get("conditions", {}).get("quick"):
            sys.stderr.write(f"{path}: missing or of small size, so the page stays as it is\n")
            return 1
        results[name] = line
        text = (into / f"{name}.txt").read_text(encoding="utf-8")
        printed[name] = text.rstrip().rpartition("\n")[0].rstrip()
    whole = {"surroundings": surroundings(), "results": results, "printed": printed}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    (DOCS / "benchmarks.json").write_text(text, encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(page_of(whole), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
