"""
The assets of functions: your function folder, this library and its pinned packages.

An asset is assembled from copies, so bundling needs no Docker.
"""

import ast
import functools
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

import lanes
from lanes import outbox
from lanes.errors import ConfigurationError

from .lambda_function import ENTRY_POINT, RELAY
from .packages import PYTHON, install_packages, install_reader

# Of tools on this machine. Bytecode is of this machine's Python.
EXCLUDED_FOLDERS = frozenset({"__pycache__", ".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
EXCLUDED_SUFFIXES = frozenset({".pyc", ".pyo"})
TESTS = "tests"
"""The folder of your tests, at the top of the function folder."""
RUNTIME_COMMAND = f"python{PYTHON}"
TASK_ROOT = "/var/task"
_CHECK = """
import sys
for file in sys.argv[1:]:
    try:
        with open(file, "rb") as source:
            compile(source.read(), file, "exec")
    except SyntaxError as error:
        sys.exit(f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}")
"""
"""A program that names the first file that isn't Python."""
_TYPED = re.compile(rb"\bMessage\[(?!Any\])")
"""A handler that names the type of its data."""
NAME = lanes.__name__
HOMES = {NAME: lanes.HOMES, outbox.__name__: outbox.HOMES}
"""The modules of public names that are imported when they are first used, by package."""
FOLDER = Path(next(iter(lanes.__path__)))


def consumer_code(folder: str | Path) -> lambda_.Code:
    """
    Bundle a function folder with this library.

    The files of your folder are at the top of the asset, those behind links as well; a folder ``tests`` there is left
    out. Packages in its ``requirements.txt``, if there is one, are installed as wheels for the function's runtime
    (Python 3.14 on arm64). Of this library the asset has the modules that your code imports, and if a handler names the
    type of its data, ``msgspec``. The same content gives the same asset, so Lambda gets a new version only when
    something changed: pin your requirements.

    A module with a syntax error is refused. If ``python3.14`` is on the path, the asset has bytecode as well: Lambda
    can't write any, so without it each cold start compiles every module that it imports.

    Args:
        folder: The folder with the module of your Lambda handler.

    Returns:
        Code for :class:`PriorityConsumer`.

    Raises:
        FileNotFoundError: There is no such folder, or a link in it leads nowhere.
        RuntimeError: A module of the folder has a syntax error.

    """
    source = Path(folder).resolve()
    if not source.is_dir():
        raise FileNotFoundError(
            f"the function folder {source} doesn't exist; give the folder that holds handler.py"
        )
    # Here and not when it is bundled: there the error would come with pages of the CDK's own frames.
    _check_syntax([file for place, file in _files(source) if _is_module(place)])
    return _asset(source, functools.partial(bundle, source))


def refuse_missing(handler: str, folder: str | Path, *, has_layers: bool) -> None:
    """
    Refuse a handler that Lambda would not find: it would show when the first message comes.

    Args:
        handler: Module and function.
        folder: The function folder. With packages of its own (``requirements.txt``) they may have the module.
        has_layers: Whether layers may have it.

    Raises:
        ConfigurationError: The handler has not this form, or the folder has no such module, or that no such name.

    """
    source, (module, _, name) = Path(folder), handler.rpartition(".")
    place = source / module.replace(".", "/")
    file = next(
        (one for one in (place.with_name(f"{place.name}.py"), place / "__init__.py") if one.is_file()), None
    )
    problem = ""
    if not module or not name:
        problem = "give module and function, such as handler.lambda_handler"
    elif file is None and not has_layers and not (source / "requirements.txt").is_file():
        problem = f"the function folder {source} has no module {module}; give the folder that has it"
    elif file is not None and not re.search(rf"\b{re.escape(name)}\b|import \*".encode(), file.read_bytes()):
        problem = (
            f"{file} has no {name}; add it, such as {name} = consumer.lambda_handler, or name another one"
        )
    if problem:
        raise ConfigurationError([f"handler is {handler!r}: {problem}"], source="function")


def relay_code() -> lambda_.Code:
    """Bundle the relay of the outbox, which is a module of this library, with its packages."""
    return _asset(FOLDER, bundle_relay)


def _asset(source: Path, write: Callable[[Path], None]) -> lambda_.Code:
    return lambda_.Code.from_asset(
        str(source),
        # The hash of the output, so that file times and paths of this machine do not cause a deployment.
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=bundled_by(write),
    )


def bundle(source: Path, target: Path) -> None:
    """
    Write the content of the asset.

    Args:
        source: The function folder.
        target: An existing empty folder.

    Raises:
        FileExistsError: A file of the folder is also one of a package or of this library.
        FileNotFoundError: A link of the folder leads nowhere.
        RuntimeError: The packages can't be installed.

    """
    install_packages(target, requirements_file=source / "requirements.txt")
    for place, file in _files(source):
        if (target / place).exists() or place.parts[0] in (NAME, f"{NAME}.py"):
            raise FileExistsError(
                f"{file} would replace a file of an installed package in the function's asset; rename it"
            )
        _copy(file, target / place)
    sources = sorted(target.rglob("*.py"))
    if any(_TYPED.search(source.read_bytes()) for source in sources):
        install_reader(target)
    _complete(target, modules_for(sources))


def bundle_relay(target: Path) -> None:
    """
    Write the content of the relay's asset.

    Args:
        target: An existing empty folder.

    Raises:
        RuntimeError: The packages can't be installed.

    """
    install_packages(target)
    modules: dict[Path, Path] = {}
    _add_modules([RELAY.rpartition(".")[0]], modules)
    _complete(target, modules)


def _complete(target: Path, modules: dict[Path, Path]) -> None:
    for place, file in modules.items():
        _copy(file, target / place)
    _compile(target)
    for path in target.rglob("*"):
        # Not those of this machine: under a umask of 077 Lambda could read nothing.
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def __init__(self, write: Callable[[Path], None]) -> None:
        self._write = write

    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        self._write(Path(output_dir))
        return True


def bundled_by(write: Callable[[Path], None]) -> BundlingOptions:
    """Give the options of an asset with a content that a function writes into an empty folder."""
    # The image is a required option; never pulled, since the local bundling succeeds or raises.
    return BundlingOptions(image=DockerImage.from_registry("not-used"), local=_LocalBundling(write))


def _copy(file: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, destination)


def _files(
    folder: Path, *, inside: Path = Path(), above: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, Path]]:
    """Yield the place in the asset and the file, behind links too, for all files of a folder but excluded ones."""
    above |= {folder.resolve()}
    for path in sorted(folder.iterdir()):
        place = inside / path.name
        if path.name in EXCLUDED_FOLDERS or path.suffix in EXCLUDED_SUFFIXES or place == Path(TESTS):
            continue
        if path.is_dir():
            # A link to a folder above would go on for ever.
            if path.resolve() not in above:
                yield from _files(path, inside=place, above=above)
        elif path.is_file():
            yield place, path
        elif path.is_symlink():
            raise FileNotFoundError(f"the link {path} leads to {path.readlink()}, which doesn't exist")


def _is_module(place: Path) -> bool:
    """Whether a file can be imported; others may be templates."""
    return place.suffix == ".py" and all(part.isidentifier() for part in place.with_suffix("").parts)


def _check_syntax(files: Sequence[Path]) -> None:
    """
    Refuse modules that the function could not import.

    They are compiled, not imported: variables, packages and rights of the function are not those of this machine.

    Raises:
        RuntimeError: One has a syntax error.

    """
    python = _runtime() or sys.executable
    outcome = subprocess.run(
        [python, "-I", "-c", _CHECK, *map(str, files)], capture_output=True, text=True, check=False
    )
    if outcome.returncode:
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        other = (
            ""
            if _runtime()
            else f"; this is Python {ours}: if Python {PYTHON} allows it, put {RUNTIME_COMMAND} on the path"
        )
        raise RuntimeError(f"the function can't import {outcome.stderr.strip()}{other}")


def _runtime() -> str | None:
    """Return the function's Python, if this machine has it."""
    return sys.executable if sys.version.startswith(f"{PYTHON}.") else shutil.which(RUNTIME_COMMAND)


def _compile(target: Path) -> None:
    """Write bytecode for the function's Python, if this machine has it."""
    python = _runtime()
    if python is None:
        sys.stderr.write(
            f"{RUNTIME_COMMAND} is not on the path, so the asset has no bytecode and cold starts take longer\n"
        )
        return
    # Unchecked: the times of files in the asset are those of its upload. The paths are those on Lambda.
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(target), "-p", TASK_ROOT]
    # A package may carry a file of another Python's syntax, so a failure is not an error.
    subprocess.run([python, "-m", "compileall", *options, str(target)], capture_output=True, check=False)


def modules_for(sources: Iterable[Path]) -> dict[Path, Path]:
    """
    Return the files of the library that code imports, also late, by their places in the asset.

    Args:
        sources: Python files of the function and its packages.

    """
    waiting = [name for source in sources for name in _imports(source, is_ours=False)]
    # A handler that loads the library by other means gets all public names.
    waiting = waiting or [NAME, *lanes.HOMES.values()]
    found: dict[Path, Path] = {}
    _add_modules(waiting, found)
    if NAME / Path("consumer", "__init__.py") in found:
        _add_modules([ENTRY_POINT.rpartition(".")[0]], found)
    return dict(sorted(found.items()))


def _add_modules(waiting: list[str], found: dict[Path, Path]) -> None:
    while waiting:
        for file in _files_of(waiting.pop()):
            place = NAME / file.relative_to(FOLDER)
            if place not in found:
                found[place] = file
                waiting += _imports(file, is_ours=True)


def _files_of(module: str) -> Iterator[Path]:
    """Yield the files that are loaded with a module: those of its packages and its own."""
    path = FOLDER
    parts = module.split(".")[1:]
    yield path / "__init__.py"
    for part in parts:
        path = path / part
        if (path / "__init__.py").is_file():
            yield path / "__init__.py"
            continue
        if path.with_suffix(".py").is_file():
            yield path.with_suffix(".py")
        return


def _imports(file: Path, *, is_ours: bool) -> tuple[str, ...]:
    """Return the names of this library's modules in a file: imported, or in other code as text for a dynamic import."""
    source = file.read_bytes()
    return _named(source, is_ours=is_ours) if NAME.encode() in source else ()


@functools.cache
def _named(source: bytes, *, is_ours: bool) -> tuple[str, ...]:
    """Find the names in source code; the functions of an app share most modules of the library."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        name
        for node in _executed(tree)
        for name in _names(node, is_ours=is_ours)
        if f"{name}.".startswith(f"{NAME}.")
    )


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from _executed(other)
            continue
        yield child
        yield from _executed(child)


def _names(node: ast.AST, *, is_ours: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
            # `import lanes` may use any public name.
            yield from HOMES.get(alias.name, {}).values()
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
            if (home := HOMES.get(node.module, {}).get(alias.name)) is not None:
                yield home
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_ours:
        yield node.value
