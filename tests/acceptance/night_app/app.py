"""Lanes with an outbox, and a function that goes wrong as the files of a folder tell it."""

from pathlib import Path

from aws_cdk import App
from lanes_cdk import PriorityLanesStack

from lanes import LanesConfig

SETTINGS = {
    "consumer": {
        "function_timeout": "5s",
        "max_attempts": 2,
        "backoff_base": "1s",
        "on_exhausted": {"stuck": "block"},
    },
    "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "threshold": 0}, {"name": "FAR"}],
    "outbox": {"enabled": True},
}

app = App()
stack = PriorityLanesStack(
    app,
    "Night",
    config=LanesConfig.from_dict(SETTINGS),
    function_folder=Path(__file__).parent / "function",
)
stack.consumer.function.add_environment("FAULTS", app.node.get_context("faults"))
app.synth()
