"""
The pytest plugin: lanes as fixtures.

pytest loads it where the package is installed. It imports nothing of the library before a fixture is used.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lanes.config import LanesConfig
    from lanes.testing.clock import FakeClock
    from lanes.testing.in_memory import InMemoryLanes
    from lanes.testing.on_moto import MotoLanes

MARKER = "lanes_config"
DEFAULT_FILE = "lanes.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    parser.addini(
        "lanes_toml",
        help=f"the file with the lanes of the fixtures; {DEFAULT_FILE} of the root folder, or the default lanes",
        default="",
    )
    parser.addini("lanes_stage", help="the stage of the fixtures' lanes; none by default", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(stage=None, **settings): change the lanes of this test's lanes_* fixtures: a stage of lanes.toml, "
        f'and top-level keys of it such as consumer={{"max_attempts": 2}} or lanes=[...]',
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Name the file with the lanes of the fixtures: with the default lanes, a test of another file tests nothing."""
    file = _file(config)
    if file is None:
        return f"lanes: the default ones; {config.rootpath} has no {DEFAULT_FILE}"
    return f"lanes: {file}" + ("" if file.exists() else ", which does not exist")


@pytest.fixture
def lanes_config(request: pytest.FixtureRequest) -> LanesConfig:
    """The lanes of the project's lanes.toml, changed by the marker `lanes_config`; or the default lanes."""
    from lanes.config import LanesConfig

    markers = list(request.node.iter_markers(MARKER))[::-1]  # those nearest to the test come last and win
    stage = request.config.getini("lanes_stage") or None
    for marker in markers:
        stage = marker.kwargs.get("stage", stage)
    file = _file(request.config)
    config = LanesConfig.from_dict({}, stage=stage) if file is None else LanesConfig.load(file, stage=stage)
    # Brief, because a marker may name another engine, which refuses settings that this one has filled in.
    raw = config.to_dict(brief=True)
    for marker in markers:
        raw = _changed(raw, {key: value for key, value in marker.kwargs.items() if key != "stage"})
    return LanesConfig.from_dict(raw)


@pytest.fixture
def lanes_clock() -> FakeClock:
    """The clock of `lanes_in_memory`, moved only by your test and the lanes."""
    from lanes.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def lanes_in_memory(lanes_config: LanesConfig, lanes_clock: FakeClock) -> InMemoryLanes:
    """Lanes in memory; `lanes_in_memory.serve(consumer)` gives them the handlers."""
    from lanes.testing.in_memory import InMemoryLanes

    return InMemoryLanes(config=lanes_config, clock=lanes_clock)


@pytest.fixture
def lanes_on_moto(lanes_config: LanesConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoLanes]:
    """Lanes on moto, which `Producer.from_env()` and `Consumer()` find."""
    if find_spec("moto") is None:
        from lanes.installing import install_hint

        pytest.fail(f"the fixture lanes_on_moto needs moto: {install_hint('testing')}", pytrace=False)
    from lanes.config.deployment import VARIABLE
    from lanes.testing import on_moto

    for name in on_moto.leading_elsewhere(os.environ):
        monkeypatch.delenv(name)
    for name, value in on_moto.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with on_moto.lanes_on_moto(lanes_config) as lanes:
        monkeypatch.setenv(VARIABLE, lanes.deployment.to_json())
        yield lanes


def _file(config: pytest.Config) -> Path | None:
    named = config.getini("lanes_toml")
    default = config.rootpath / DEFAULT_FILE
    if named:
        return Path(config.rootpath / named)
    return default if default.exists() else None


def _changed(raw: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with others over them; of a table, only the keys that are named."""
    changed = dict(raw)
    for key, value in settings.items():
        table = isinstance(value, dict) and isinstance(changed.get(key), dict)
        changed[key] = {**changed[key], **value} if table else value
    return changed
