"""The check that the sample application is in place: the demo judges by its output."""

from pathlib import Path

from local.demo.plan import PRIORITIES

_LINE = "resource"


class SampleError(RuntimeError):
    """The function's folder holds another application than the sample."""


def check_sample(handler: Path) -> None:
    """
    Look whether a file is the sample application, before anything is deployed.

    Raises:
        SampleError: it lacks a kind that the demo sends, or the lines that the demo reads.
    """
    text = handler.read_text(encoding="utf-8") if handler.is_file() else ""
    missing = [word for word in (*PRIORITIES, _LINE) if f'"{word}"' not in text]
    if missing:
        raise SampleError(
            f"{handler} is not the sample application any more: it knows no {', '.join(missing)}.\n"
            "The demo judges by the sample's output. Keep your handlers in another place meanwhile, and restore "
            f"the sample back:\n  git checkout -- {handler}"
        )
