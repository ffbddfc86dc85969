"""Words for what a handler raised: whatever it was, text that can be logged, sent and stored."""

from __future__ import annotations


def words_of(error: BaseException) -> str:
    """Return kind and text of an exception."""
    return f"{type(error).__name__}: {text_of(error)}"


def text_of(value: object) -> str:
    """Return a value as text; one that can't be put into words is told by its type."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - it comes from user code
        text = f"a {type(value).__name__} without words"
    # Half a surrogate pair is text to Python alone: DynamoDB and SQS refuse it.
    return text.encode("utf-8", "replace").decode()
