"""
The default source of a message: the name of the program that sends it.

The source is part of a message's identity. It is the same in every process of a program, so a repeat from another
process is still a repeat, and different in two programs, so that they can use the same ids.
"""

from __future__ import annotations

import os
import sys
from pathlib import PurePath

VARIABLE = "LANES_SOURCE"
# AWS: reserved, so a function always has it (Lambda developer guide, "Defined runtime environment variables").
FUNCTION = "AWS_LAMBDA_FUNCTION_NAME"
UNNAMED = "lanes"
"""The source of programs without a file of their own: an interactive session, `python -c`."""


def program_source() -> str:
    """Return LANES_SOURCE, the name of the Lambda function, or the name of the program's file."""
    return os.environ.get(VARIABLE) or os.environ.get(FUNCTION) or _program(sys.argv[0] if sys.argv else "")


def _program(file: str) -> str:
    path = PurePath(file)
    # `python -m package` runs the file __main__.py of the package's folder.
    name = path.parent.name if path.name == "__main__.py" else path.stem
    usable = name.isprintable() and not name.startswith("-")
    return name if name and usable else UNNAMED
