"""
Run all benchmarks, one after the other: `make bench`.

Each runs in its own process, those of priority once for each engine (`wait` and `wait-pull`), and leaves its figures in
`build/bench/NAME.json` and its output in `build/bench/NAME.txt`; `build/bench/table.md` compares all figures with their
targets. A run of all at full size also renews `docs/benchmarks.json` and the page made from it, `docs/benchmarks.md`;
`--page` does so from the files in the folder.
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

from benchmarks.page import table_of, write_page
from benchmarks.targets import TARGETS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TIMEOUT = 7200.0
"""Seconds after which a benchmark is stopped."""


def measured(label: str, *, quick: bool, into: Path) -> dict[str, Any]:
    """Run one benchmark, for one engine; return the object of its last line, or the problem under `error`."""
    name, _, engine = label.partition("-")
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    command += ["--engine", engine] if engine else []
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {TIMEOUT:.0f} s"}
    (into / f"{label}.txt").write_text(done.stdout, encoding="utf-8")
    try:
        line = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"exit status {done.returncode} and no figures"}
    (into / f"{label}.json").write_text(json.dumps(line, indent=2) + "\n", encoding="utf-8")
    return dict(line)


def machine() -> dict[str, Any]:
    """Describe this machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
    }


def main() -> int:
    """Run them and write their results; the exit status says whether all of them ran, not whether targets hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all", description="Run all benchmarks.")
    parser.add_argument(
        "--quick", action="store_true", help="run small sizes, to check that they run; keep the page"
    )
    parser.add_argument("--only", default="", help=f"run some of {','.join(TARGETS)}; keep the page")
    parser.add_argument("--page", action="store_true", help="renew the page from the folder without a run")
    parser.add_argument(
        "--into", type=Path, default=ROOT / "build/bench", help="write to this folder (default build/bench)"
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
    """Renew the page from the results in a folder; return 1 and keep it if one is missing or of small size."""
    results, printed = {}, {}
    for name in TARGETS:
        path = into / f"{name}.json"
        line = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not line or line.get("conditions", {}).get("quick"):
            sys.stderr.write(f"{path}: missing or of small size, so the page is not renewed\n")
            return 1
        results[name] = line
        text = (into / f"{name}.txt").read_text(encoding="utf-8")
        printed[name] = text.rstrip().rpartition("\n")[0].rstrip()
    whole = {"machine": machine(), "results": results, "printed": printed}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    (DOCS / "benchmarks.json").write_text(text, encoding="utf-8")
    write_page(whole)
    return 0


if __name__ == "__main__":
    sys.exit(main())
