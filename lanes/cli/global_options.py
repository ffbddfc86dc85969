"""The `lanes` command as a whole: global options anywhere on its line, and wrong values in its errors."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


OUTPUT = "--output"
MAY_BE_EMPTY = frozenset({"--why"})
"""Options with a text for people."""


class RootGroup(TyperGroup):
    """The `lanes` command, which reads its own options behind a verb as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the command line, wherever they are."""
        with _naming_values():
            return super().parse_args(ctx, options_first(self, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        with _naming_values():
            return super().invoke(ctx)


@contextmanager
def _naming_values() -> Iterator[None]:
    """Name the wrong value in an error of an option: Pydantic, which checks it for Typer, leaves it out."""
    try:
        yield
    except typer.BadParameter as error:
        if found := getattr(error.__cause__, "errors", None):
            value = repr(found()[0]["input"])
            error.message = error.message if value in error.message else f"{value}: {error.message}"
        raise


def options_first(root: Any, arguments: Sequence[str]) -> list[str]:
    """
    Return the arguments with the global options before the verb.

    An option that the verb has too stays the verb's. The arguments of a verb that passes them on to a job stay where
    they are, except for `--output`; so do all words of a command that a verb runs, and those after `--`.

    Raises:
        typer.BadParameter: the value of a global option is missing, an option or argument has an empty value, or an
            argument is given as an option.
    """
    mine = _options(root)
    first: list[str] = []
    rest: list[str] = []
    command, left = root, list(arguments)
    while left and left[0] != "--" and not command.context_settings.get("ignore_unknown_options"):
        word = left.pop(0)
        name, has_value = word.partition("=")[0], "=" in word
        own = _options(command)
        takes_value = not has_value and (own if name in own else mine).get(name, False)
        _refuse_empty(command, word, left[0] if takes_value and left else None)
        if takes_value and not left and name in mine and name not in own:
            raise typer.BadParameter("a value is missing", param_hint=name)
        if name in _arguments(command) and name not in own and name not in mine:
            raise typer.BadParameter(
                f"give it as an argument, without {name}: {_usage(command)}", param_hint=name
            )
        words = [word, *([left.pop(0)] if takes_value and left else [])]
        (first if name in mine and (command is root or name not in own) else rest).extend(words)
        if not word.startswith("-"):
            command = getattr(command, "commands", {}).get(word, command)
    is_command = not command.context_settings.get("allow_interspersed_args", True)
    moved, left = ([], left) if not left or left[0] == "--" or is_command else _output_of(left)
    return [*first, *moved, *rest, *left]


def _refuse_empty(command: Any, word: str, value: str | None) -> None:
    """
    Refuse an empty value, which an unset variable of a script leaves: it would mean the default stack, or any run.

    Args:
        command: the command, for the error.
        word: an option, with or without its value, or an argument.
        value: the value behind the option; None if it has none there.
    """
    name, is_assigned, assigned = word.partition("=")
    is_empty = word == "" or value == "" or (word.startswith("-") and is_assigned and not assigned)
    if is_empty and name not in MAY_BE_EMPTY:
        problem = "it has an empty value; give one" + (", or leave the option out" if name else "")
        raise typer.BadParameter(problem, param_hint=name or f"an argument of {command.name}")


def _output_of(passed_on: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate `--output`, which no job has, from the arguments that a verb passes on."""
    moved: list[str] = []
    left: list[str] = []
    words = iter(passed_on)
    for word in words:
        if word.partition("=")[0] == OUTPUT:
            moved += [word] if "=" in word else [word, *islice(words, 1)]
        else:
            left.append(word)
    return moved, left


def _arguments(command: Any) -> set[str]:
    """Return the names that the arguments of a command would have as options."""
    return {f"--{one.name}" for one in command.params if one.param_type_name == "argument"}


def _usage(command: Any) -> str:
    metavars = [one.metavar for one in command.params if one.param_type_name == "argument"]
    return " ".join([f"{command.name}", *metavars])


def _options(command: Any) -> dict[str, bool]:
    """Return the names of a command's options, and whether each takes a value."""
    return {
        name: not (parameter.is_flag or parameter.count)
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
