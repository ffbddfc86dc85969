"""Why a target is missed, where it is: by benchmark and figure."""

from __future__ import annotations

REASONS: dict[tuple[str, str], str] = {}
