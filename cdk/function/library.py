"""The part of this library that a function imports: every other module would lengthen its asset and change its hash."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import lanes

NAME = lanes.__name__
FOLDER = Path(next(iter(lanes.__path__)))


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
    while waiting:
        for file in _files_of(waiting.pop()):
            place = NAME / file.relative_to(FOLDER)
            if place not in found:
                found[place] = file
                waiting += _imports(file, is_ours=True)
    return dict(sorted(found.items()))


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


def _imports(file: Path, *, is_ours: bool) -> list[str]:
    """Return the names of this library's modules in a file: imported, or in other code as text for a dynamic import."""
    source = file.read_bytes()
    if NAME.encode() not in source:
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return [
        name
        for node in _executed(tree)
        for name in _names(node, is_ours=is_ours)
        if f"{name}.".startswith(f"{NAME}.")
    ]


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
            if alias.name == NAME:
                yield from lanes.HOMES.values()
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
            if node.module == NAME and alias.name in lanes.HOMES:
                yield lanes.HOMES[alias.name]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_ours:
        yield node.value
