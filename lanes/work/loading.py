"""The consumer of an application, imported by its name."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.config.table import nearest
from lanes.consumer import Consumer
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

SOURCE = "MODULE:CONSUMER"


def split_name(name: str) -> tuple[str, str]:
    """
    Split `module:consumer`.

    Raises:
        ConfigurationError: it has no such form.
    """
    module, _, attribute = name.partition(":")
    if all(part.isidentifier() for part in (*module.split("."), attribute)):
        return module, attribute
    problem = (
        f"{name!r} is not of the form MODULE:CONSUMER; write the module as in an import, such as "
        f"orders.handler:consumer for the name consumer in orders/handler.py"
    )
    raise ConfigurationError([problem], source=SOURCE)


def search_path(paths: Iterable[str], *, folder: Path) -> list[str]:
    """
    Return a search path on which a folder comes first, but for Python's standard library.

    A `queue.py` or an `email.py` in the folder must not replace the module that boto3 means.

    Args:
        paths: the search path so far.
        folder: with the modules of the application.
    """
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    standard |= {f"{path}/lib-dynload" for path in standard}
    rest = [path for path in paths if path not in ("", str(folder))]
    return [path for path in rest if path in standard] + [
        str(folder),
        *(path for path in rest if path not in standard),
    ]


def load_consumer(name: str) -> Consumer:
    """
    Import a consumer; modules in the working directory are found before installed ones.

    Raises:
        ConfigurationError: there is no such module or name, the import fails, or it is no consumer.
    """
    module_name, attribute = split_name(name)
    # An installed command has its own folder there, not the one that it was started in.
    sys.path[:] = search_path(sys.path, folder=Path.cwd())
    module = _imported(module_name)
    found: Any = getattr(module, attribute, None)
    if isinstance(found, Consumer):
        return found
    consumers = [key for key, value in vars(module).items() if isinstance(value, Consumer)]
    known = nearest(attribute, consumers) if consumers else "; the module has no lanes.Consumer"
    is_there = hasattr(module, attribute)
    problem = (
        f"it is of type {type(found).__name__}, no lanes.Consumer" if is_there else "there is no such name"
    )
    problem = f"{name}: {problem}{known}{_hidden_modules()}"
    raise ConfigurationError([problem], source=SOURCE)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        problem = (
            f"there is no module {error.name!r} in {Path.cwd()} or among the installed packages; "
            f"start the command in the folder that has it"
        )
        raise ConfigurationError([problem], source=SOURCE) from error
    # A module that ends the program when it is imported would end the slot without a reason.
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> ConfigurationError:
    """Print where the module's code failed, which is the user's to mend."""
    traceback.print_exception(error)
    problem = f"{name} could not be imported: {type(error).__name__}: {error}{_hidden_modules()}"
    return ConfigurationError([problem], source=SOURCE)


def _hidden_modules() -> str:
    """Name the modules of the working directory that Python's own hide; they may be the cause of a failed import."""
    folder = Path.cwd()
    modules = [*folder.glob("*.py"), *(package.parent for package in folder.glob("*/__init__.py"))]
    hidden = sorted(module.name for module in modules if module.stem in sys.stdlib_module_names)
    if not hidden:
        return ""
    return f"; Python's own modules hide {', '.join(hidden)} in {folder}: give them other names"
