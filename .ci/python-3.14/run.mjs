// Runs pytest on Python 3.14 for the tests: node run.mjs CHECKOUT PACKAGES NATIVE ARGUMENTS
// PACKAGES are those of .venv, of which the ones with native code can't be loaded; NATIVE has some of them as WebAssembly.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [checkout, packages, native, ...args] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(createRequire(`${native}/`).resolve("pyodide/pyodide.mjs")));
const env = { HOME: "/tmp", PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1", PYTHONDONTWRITEBYTECODE: "1" };
const python = await loadPyodide({ env });
for (const [root, place] of [[checkout, "/work"], [packages, "/packages"], [native, "/native"]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
python.globals.set("args", python.toPy(args));
process.exitCode = python.runPython(`
import os, sys
os.chdir("/work")
sys.path[:0] = ["/work", "/native"]
sys.path.append("/packages")
import pytest
int(pytest.main(list(args)))
`);
