"""This checkout under the names that it has where it is installed, for CDK apps that stand elsewhere."""

import contextlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout, or the folder of installed packages."""
IS_CHECKOUT = (ROOT / "pyproject.toml").is_file()
_FOLDERS = {
    "lanes": "lanes",
    "lanes_cdk": "cdk",
    "lanes_local": "local",
    "lanes_simulator": "simulator",
    "lanes_spark": "spark_jobs",
}


def installed_names(folder: Path) -> Path:
    """Make the folder into one that Python can import `lanes`, `lanes_cdk` and the others from, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in _FOLDERS.items():
        # Another deploy may make it at the same moment.
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(ROOT / source)
    return folder
