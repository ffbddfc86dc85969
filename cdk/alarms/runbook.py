"""The runbook on the dashboard: the first step of each alarm, and the pages of all alarms."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .rule import AlarmRule

RUNBOOK = "docs/runbook"
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
FOLDER = Path(__file__).resolve().parent  # in a checkout `lanes_cdk` is a link to this package
INSTALLED_PAGES = FOLDER / "pages"
"""The wheel has the pages beside this file; in a checkout they are in the documentation alone."""


def page_of(rule: AlarmRule, runbook: str) -> str:
    """Give the page of an alarm."""
    return f"{runbook.rstrip('/')}/{rule.page}.md"


def first_steps(rules: Iterable[AlarmRule], runbook: str) -> str:
    """
    Give the meaning of each alarm, the first step and the link to its page.

    Args:
        rules: The rules of the alarms.
        runbook: The folder or URL of the runbook.

    """
    parts = ["### Runbook"]
    for rule in rules:
        page = page_of(rule, runbook)
        # Without a URL the page is a file of the repository, which no browser opens.
        more = f"[{rule.page}]({page})" if "://" in page else "below"
        parts.append(
            f"**{rule.name}** ({rule.severity}). {rule.description} First: {rule.first_step} More: {more}"
        )
    return "\n\n".join(parts)


def pages(rules: Iterable[AlarmRule]) -> Iterator[str]:
    """Give the text of each page that the alarms need, once, without links that only its folder can resolve."""
    folder = INSTALLED_PAGES if INSTALLED_PAGES.is_dir() else FOLDER.parents[1] / RUNBOOK
    for page in dict.fromkeys(rule.page for rule in rules):
        yield RELATIVE_LINK.sub(r"\1", (folder / f"{page}.md").read_text(encoding="utf-8"))
